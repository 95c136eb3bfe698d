// Throwaway Redis servers on loopback, for trying locks without installing anything but Redis.
import { spawnSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';

import { BoundProcess } from './bound-process.js';

export class RedisServer {
  readonly url: string;
  readonly port: number;
  #process: BoundProcess;
  #lastTurn: Promise<void> = Promise.resolve();

  private constructor(process: BoundProcess, port: number) {
    this.#process = process;
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /** Starts an empty server that ends with this process; resolves when it accepts. */
  static async start(): Promise<RedisServer> {
    for (let attempt = 1; ; attempt += 1) {
      const port = randomInt(PORT_MIN, PORT_MAX);
      try {
        return new RedisServer(await launch(port), port);
      } catch (error) {
        // Most likely another program has the port.
        if (attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  get hasEnded(): boolean {
    return this.#process.hasEnded;
  }

  /** Freezes it without closing its connections: it accepts, but answers nothing. */
  freeze(): void {
    this.#process.freeze();
  }

  /** Lets a frozen server go on: it then runs the commands that have piled up. */
  thaw(): void {
    this.#process.thaw();
  }

  /** Ends it as a crash does, even while it is frozen: there is nothing to save. */
  kill(): Promise<void> {
    return this.#inTurn(() => this.#process.end('SIGKILL'));
  }

  /** Ends it, and starts an empty one in its place, on the same port. */
  restart(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#process.end('SIGKILL');
      this.#process = await launch(this.port);
    });
  }

  // Two starts at once would want the same port, and a kill would miss the server that is starting.
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(work);
    this.#lastTurn = turn.catch(() => undefined);
    return turn;
  }
}

/** The server program that is installed here; null where there is none. */
export function findRedisServer(): string | null {
  const isInstalled = (command: string) =>
    spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
  return COMMANDS.find(isInstalled) ?? null;
}

/** Starts `count` servers at once. */
export async function startRedisServers(count: number): Promise<RedisServer[]> {
  return Promise.all(Array.from({ length: count }, () => RedisServer.start()));
}

/** Resolves when the server accepts; if it ends instead, rejects with its output. */
async function launch(port: number): Promise<BoundProcess> {
  const command = findRedisServer();
  if (command === null) throw new Error(`Install one of: ${COMMANDS.join(', ')}`);
  const process = new BoundProcess(command, argumentsFor(port));
  await process.line(/Ready to accept connections/);
  return process;
}

function argumentsFor(port: number): string[] {
  return [
    ...['--port', `${port}`, '--bind', '127.0.0.1'],
    ...['--save', '', '--appendonly', 'no'],
    // Where it looks for an old snapshot; the default is the current folder.
    ...['--dir', tmpdir(), '--dbfilename', `${randomUUID()}.rdb`],
  ];
}

const COMMANDS = ['redis-server', 'valkey-server'];
const ATTEMPTS_MAX = 10;
// Below the ports that systems give to outgoing connections.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
