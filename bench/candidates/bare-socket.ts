// Limit: writes the same bytes as plain ioredis by hand, those of one tick in one write per node.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import type { Connect } from './candidate.js';
import {
  limitScripts,
  QuorumLimit,
  type LimitNode,
  type LimitScript,
  type OnWord,
} from './quorum-limit.js';

export const connectBareSocket = connectSockets((socket) => new BareNode(socket));

/** A limit whose nodes are sockets. */
export function connectSockets(nodeOf: (socket: Socket) => BareNode): Connect {
  return async (urls, settings) => {
    const open = async (url: string): Promise<BareNode> => {
      const { hostname, port } = new URL(url);
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      await once(socket, 'connect');
      const node = nodeOf(socket);
      await node.loadScripts();
      return node;
    };
    return new QuorumLimit(await Promise.all(urls.map(open)), settings);
  };
}

const PLUS = 43;
const MINUS = 45;
const COLON = 58;
const ASTERISK = 42;
const LINE_FEED = 10;
const ONE = 49;

/** One connection, used by hand. */
export class BareNode implements LimitNode {
  readonly #socket: Socket;
  #unsent = '';
  #isDown = false;
  // A queue in an array, as answers come in the order of the commands; `#next` is its head.
  #unanswered: OnWord[] = [];
  #next = 0;
  #rest: Buffer | null = null;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#onData(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#onClose());
  }

  /** Loads the scripts that the server is to run. */
  async loadScripts(): Promise<void> {
    const loads = this.scripts().map(({ text }) => commandOf('script', 'LOAD', text));
    await Promise.all(loads.map((bytes) => new Promise((done) => this.write(bytes, done))));
  }

  set(key: string, owner: string, ttl: number, onWord: OnWord): void {
    this.write(
      `*6\r\n$3\r\nset\r\n$${key.length}\r\n${key}\r\n$${owner.length}\r\n${owner}\r\n` +
        `$2\r\nPX\r\n$${digitsOf(ttl)}\r\n${ttl}\r\n$2\r\nNX\r\n`,
      onWord,
    );
  }

  run(script: LimitScript, key: string, owner: string, ttl: number, onWord: OnWord): void {
    const { sha, takesTtl } = script;
    this.write(
      `*${takesTtl ? 6 : 5}\r\n$7\r\nevalsha\r\n$40\r\n${sha}\r\n$1\r\n1\r\n` +
        `$${key.length}\r\n${key}\r\n$${owner.length}\r\n${owner}\r\n` +
        (takesTtl ? `$${digitsOf(ttl)}\r\n${ttl}\r\n` : ''),
      onWord,
    );
  }

  close(): void {
    this.#socket.destroy();
  }

  protected scripts(): readonly { readonly text: string }[] {
    return Object.values(limitScripts);
  }

  // An immediate runs when this turn of the event loop is over, and all its callbacks have written.
  protected write(bytes: string, onWord: OnWord): void {
    if (this.#isDown) {
      process.nextTick(onWord, null);
      return;
    }
    if (this.#unsent === '') setImmediate(() => this.#flush());
    this.#unsent += bytes;
    this.#unanswered.push(onWord);
  }

  #flush(): void {
    const bytes = this.#unsent;
    this.#unsent = '';
    if (!this.#isDown) this.#socket.write(bytes, 'latin1');
  }

  // Replies here are one line each, except the hashes that SCRIPT LOAD returns: `$40`, then 40
  // digits. `$-1` is the refused SET.
  #onData(chunk: Buffer): void {
    const bytes = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
    let start = 0;
    for (;;) {
      const end = bytes.indexOf(LINE_FEED, start);
      if (end < 0) break;
      const kind = bytes[start];
      const isBulk = kind === 36 && bytes[start + 1] !== MINUS;
      if (!isBulk) this.#answer(wordOf(kind, bytes[start + 1]));
      start = end + 1;
    }
    this.#rest = start === bytes.length ? null : bytes.subarray(start);
  }

  #answer(word: boolean | null): void {
    const onWord = this.#unanswered[this.#next];
    this.#next += 1;
    if (this.#next === this.#unanswered.length) {
      this.#unanswered = [];
      this.#next = 0;
    } else if (this.#next === 4_096) {
      this.#unanswered = this.#unanswered.slice(this.#next);
      this.#next = 0;
    }
    onWord?.(word);
  }

  #onClose(): void {
    this.#isDown = true;
    const unanswered = this.#unanswered.slice(this.#next);
    this.#unanswered = [];
    this.#next = 0;
    for (const onWord of unanswered) onWord(null);
  }
}

/** A command of words in ASCII. */
export function commandOf(...words: readonly string[]): string {
  let bytes = `*${words.length}\r\n`;
  for (const word of words) bytes += `$${word.length}\r\n${word}\r\n`;
  return bytes;
}

function wordOf(kind: number | undefined, first: number | undefined): boolean | null {
  if (kind === PLUS) return true;
  if (kind === COLON) return first === ONE;
  if (kind === ASTERISK) throw new Error('Expected a reply of one word, got a list');
  return kind === MINUS ? null : false;
}

function digitsOf(number: number): number {
  return String(number).length;
}
