// Counts at the socket the commands that this process writes to the nodes. INFO does not separate
// them from those that scripts call.
import { Socket } from 'node:net';

/** What went over the wire to all nodes together. */
export interface WireCount {
  readonly commands: number;
  readonly writes: number;
  readonly bytes: number;
}

type Write = (this: Socket, chunk: string | Uint8Array, ...rest: unknown[]) => boolean;

/** Patches sockets only while it counts; otherwise they are as Node made them. */
export class WireCounter {
  readonly #ports: ReadonlySet<number>;
  readonly #rests = new WeakMap<Socket, Buffer>();
  #count = { commands: 0, writes: 0, bytes: 0 };
  #restore: () => void = () => undefined;

  /** Counts only on connections to `ports`. */
  constructor(ports: readonly number[]) {
    this.#ports = new Set(ports);
  }

  start(): void {
    this.#count = { commands: 0, writes: 0, bytes: 0 };
    const observe = (socket: Socket, chunk: string | Uint8Array, encoding: unknown): void => {
      if (this.#ports.has(socket.remotePort ?? 0)) this.#add(socket, chunk, encoding);
    };
    // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its socket below
    const original = Socket.prototype.write as Write;
    const write: Write = function (chunk, ...rest) {
      observe(this, chunk, rest[0]);
      return original.call(this, chunk, ...rest);
    };
    Socket.prototype.write = write;
    this.#restore = () => {
      Socket.prototype.write = original;
    };
  }

  /** What was counted since `start`; nothing without a `start`. */
  stop(): WireCount {
    this.#restore();
    this.#restore = () => undefined;
    const count = this.#count;
    this.#count = { commands: 0, writes: 0, bytes: 0 };
    return count;
  }

  #add(socket: Socket, chunk: string | Uint8Array, encoding: unknown): void {
    const isNamed = typeof encoding === 'string' && Buffer.isEncoding(encoding);
    const written =
      typeof chunk === 'string' ? Buffer.from(chunk, isNamed ? encoding : 'utf8') : chunk;
    const rest = this.#rests.get(socket);
    const bytes = Buffer.concat(rest === undefined ? [written] : [rest, written]);
    const { commands, end } = countCommands(bytes);
    if (end < bytes.length) this.#rests.set(socket, bytes.subarray(end));
    else this.#rests.delete(socket);
    this.#count.commands += commands;
    this.#count.writes += 1;
    this.#count.bytes += written.length;
  }
}

/** How many whole RESP commands `bytes` begin with, and where the last of them ends. */
export function countCommands(bytes: Buffer): { readonly commands: number; readonly end: number } {
  let commands = 0;
  let end = 0;
  for (;;) {
    const next = skipCommand(bytes, end);
    if (next === null) return { commands, end };
    commands += 1;
    end = next;
  }
}

function skipCommand(bytes: Buffer, start: number): number | null {
  const head = readNumber(bytes, start);
  if (head === null) return null;
  let position = head.end;
  for (let word = 0; word < head.number; word += 1) {
    const length = readNumber(bytes, position);
    if (length === null) return null;
    position = length.end + length.number + 2;
  }
  return position <= bytes.length ? position : null;
}

// A line such as `*3` or `$12`.
function readNumber(
  bytes: Buffer,
  start: number,
): { readonly number: number; readonly end: number } | null {
  const end = bytes.indexOf('\r\n', start);
  if (end < 0) return null;
  return { number: Number(bytes.toString('latin1', start + 1, end)), end: end + 2 };
}
