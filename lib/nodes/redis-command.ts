// Commands as they go over the wire.

/** A command in the Redis serialization protocol, the same for whatever server it goes to. */
export interface EncodedCommand {
  /** As ioredis knows it, in lower case. */
  readonly name: string;
  readonly argumentCount: number;
  readonly bytes: Buffer;
}

/**
 * Encodes a command for the wire.
 * Source: Redis serialization protocol specification, "Sending commands to a Redis server".
 */
export function encodeCommand(
  name: string,
  args: readonly (string | number)[] = [],
): EncodedCommand {
  // One string, because V8 adds to it faster than Node writes piece by piece into a buffer.
  let text = `*${args.length + 1}\r\n${bulkString(name)}`;
  for (const argument of args) text += bulkString(String(argument));
  return { name, argumentCount: args.length, bytes: Buffer.from(text) };
}

function bulkString(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}
