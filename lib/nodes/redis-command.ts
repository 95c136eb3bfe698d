// Commands as they go over the wire.

/** A command in the Redis serialization protocol: whom it goes to makes no difference to it. */
export interface EncodedCommand {
  /** As ioredis knows it, in lower case. */
  readonly name: string;
  readonly argumentCount: number;
  readonly bytes: Buffer;
}

/** Source: Redis serialization protocol specification, "Sending commands to a Redis server". */
export function encodeCommand(
  name: string,
  args: readonly (string | number)[] = [],
): EncodedCommand {
  // To ask for each word's size in bytes costs more than to encode it. Mostly a character is a
  // byte, and then the whole is as long in both.
  const text = textOf(name, args, (word) => word.length);
  const bytes = Buffer.from(text);
  const isSized = bytes.length === text.length;
  return {
    name,
    argumentCount: args.length,
    bytes: isSized ? bytes : Buffer.from(textOf(name, args, (word) => Buffer.byteLength(word))),
  };
}

// One string, for V8 adds to it faster than Node writes into a buffer, piece by piece.
function textOf(
  name: string,
  args: readonly (string | number)[],
  sizeOf: (word: string) => number,
): string {
  let text = `*${args.length + 1}\r\n$${sizeOf(name)}\r\n${name}\r\n`;
  for (const argument of args) {
    const word = String(argument);
    text += `$${sizeOf(word)}\r\n${word}\r\n`;
  }
  return text;
}
