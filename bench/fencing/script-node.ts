// A client's way to one server: what a tick asks goes as calls of at most 128 operations.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import { pause } from '../measure/pause.js';
import type { Form } from './forms.js';

export type OnAnswer = (vote: string, figure: number, nodeTime: number) => void;

/** What a node is asked about one lock. */
export interface Operation {
  readonly name: 'acquire' | 'release';
  readonly resource: string;
  readonly owner: string;
  readonly token: number;
  readonly onAnswer: OnAnswer;
}

type Reply = number | string | null | Error | Reply[];

/** S, in ms. */
export const SKEW = 2_000;
const RETENTION = 10_000;
const TTL = '10000';
const BATCH_MAX = 128;

/** One connection. `delay` is that of each direction, in ms. */
export class ScriptNode {
  readonly #socket: Socket;
  readonly #unanswered: ((reply: Reply) => void)[] = [];
  #operations: Operation[] = [];
  #rest = Buffer.alloc(0);
  #sha = '';

  static async connect(port: number, form: Form, delay = 0): Promise<ScriptNode> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await once(socket, 'connect');
    const node = new ScriptNode(socket, form, delay);
    node.#sha = String(await node.ask(['SCRIPT', 'LOAD', form.script]));
    return node;
  }

  private constructor(
    socket: Socket,
    private readonly form: Form,
    private readonly delay: number,
  ) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#later(() => this.#onData(chunk)));
  }

  add(operation: Operation): void {
    if (this.#operations.push(operation) === 1) setImmediate(() => this.#flush());
  }

  /** A command of its own. */
  ask(words: readonly (string | number)[]): Promise<Reply> {
    return new Promise((resolve) => this.#send(words, resolve));
  }

  /** A figure out of INFO. */
  async info(section: string, name: string): Promise<number> {
    const text = String(await this.ask(['INFO', section]));
    return Number(new RegExp(`^${name}:(.*)`, 'm').exec(text)?.[1]);
  }

  /** After what is still on its way. */
  async close(): Promise<void> {
    await pause(2 * this.delay + 20);
    this.#socket.destroy();
  }

  #flush(): void {
    const operations = this.#operations;
    this.#operations = [];
    for (let from = 0; from < operations.length; from += BATCH_MAX) {
      this.#call(operations.slice(from, from + BATCH_MAX));
    }
  }

  #call(operations: readonly Operation[]): void {
    const { isFenced, hasRecords, shared } = this.form;
    const keys = ['redlock:node', ...shared];
    const own: (string | number)[] = [SKEW, isFenced ? RETENTION : 0, 0, 0];
    let run = '';
    for (const { name, owner, resource, token } of operations) {
      if (name !== run) own.push(name, name === 'acquire' ? TTL : 1, 1, '');
      run = name;
      own.push(`${own.pop()} ${isFenced ? `${owner} ${token}` : owner}`);
      keys.push(resource);
      if (hasRecords) keys.push(`redlock:fence:${resource}`);
    }
    this.#send(['EVALSHA', this.#sha, keys.length, ...keys, ...own], (reply) => {
      if (!Array.isArray(reply)) throw new Error(String(reply));
      operations.forEach(({ name, onAnswer }, index) => {
        const given = reply[index + 1];
        const plain = [name === 'acquire' ? 'granted' : 'done', 0];
        const [vote, figure] = Array.isArray(given) ? given : plain;
        onAnswer(String(vote), Number(figure), Number(reply[0]));
      });
    });
  }

  #send(words: readonly (string | number)[], onReply: (reply: Reply) => void): void {
    const encoded = words.map((word) => `$${String(word).length}\r\n${word}\r\n`);
    this.#unanswered.push(onReply);
    const bytes = `*${words.length}\r\n${encoded.join('')}`;
    this.#later(() => this.#socket.write(bytes, 'latin1'));
  }

  #later(what: () => void): void {
    if (this.delay === 0) what();
    else setTimeout(what, this.delay);
  }

  #onData(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (let read = parse(this.#rest, from); read !== null; read = parse(this.#rest, from)) {
      from = read.end;
      this.#unanswered.shift()?.(read.reply);
    }
    this.#rest = this.#rest.subarray(from);
  }
}

/** Reads one reply of RESP2; null where it is not there yet. */
function parse(bytes: Buffer, from: number): { reply: Reply; end: number } | null {
  const lineEnd = bytes.indexOf('\r\n', from);
  if (lineEnd < 0) return null;
  const word = bytes.toString('latin1', from + 1, lineEnd);
  let end = lineEnd + 2;
  switch (String.fromCharCode(bytes[from] ?? 0)) {
    case '$': {
      const size = Number(word);
      if (size < 0) return { reply: null, end };
      if (bytes.length < end + size + 2) return null;
      return { reply: bytes.toString('latin1', end, end + size), end: end + size + 2 };
    }
    case '*': {
      const list: Reply[] = [];
      while (list.length < Number(word)) {
        const read = parse(bytes, end);
        if (read === null) return null;
        list.push(read.reply);
        end = read.end;
      }
      return { reply: list, end };
    }
    case ':':
      return { reply: Number(word), end };
    case '-':
      return { reply: new Error(word), end };
    default:
      return { reply: word, end };
  }
}
