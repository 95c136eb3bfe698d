// Real servers for tests, each a child process of the jest worker that started it.
import { spawn, spawnSync, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** The programs that may serve. */
export type ServerCommand = 'redis-server' | 'valkey-server';

export interface RedisServerOptions {
  /** Which program. @default the first that is installed */
  readonly command?: ServerCommand;
  /** TCP port on 127.0.0.1. @default a free one */
  readonly port?: number;
  /** Further command-line arguments, such as `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[];
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Process id of the current process: another one after `restart`. */
  readonly pid: number;
  /** Ends the server and resolves when it is gone, also when it is frozen or gone already. */
  stop(): Promise<void>;
  /** Ends the server as a crash does (SIGKILL), without waiting. */
  kill(): void;
  /** Stops the process without closing its connections (SIGSTOP): it accepts, and answers nothing. */
  freeze(): void;
  /** Lets a frozen server go on (SIGCONT): it then runs the commands that have piled up. */
  thaw(): void;
  /** Kills the server and starts an empty one on the same port. */
  restart(): Promise<void>;
}

/** Starts one server and resolves when it accepts connections. */
export async function startRedisServer(options: RedisServerOptions = {}): Promise<RedisServer> {
  const command = options.command ?? firstInstalled();
  const directory = mkdtempSync(join(tmpdir(), 'nestjs-locked-redis-'));
  const args = options.args ?? [];
  try {
    for (let attempt = 1; ; attempt += 1) {
      const port = options.port ?? randomInt(PORT_MIN, PORT_MAX);
      try {
        const child = await launch(command, port, directory, args);
        return new ChildServer(child, command, port, directory, args);
      } catch (error) {
        const isWorthRetrying = error instanceof PortTakenError && options.port === undefined;
        if (!isWorthRetrying || attempt === START_ATTEMPTS_MAX) throw error;
      }
    }
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

/** Starts `count` servers in parallel, all with the same further arguments; all or none. */
export async function startRedisServers(
  count: number,
  options: Omit<RedisServerOptions, 'port'> = {},
): Promise<RedisServer[]> {
  const starts = Array.from({ length: count }, () => startRedisServer(options));
  const outcomes = await Promise.allSettled(starts);
  const servers = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  const failure = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failure !== undefined) {
    await Promise.all(servers.map((server) => server.stop()));
    throw failure.reason;
  }
  return servers;
}

/** The programs that are on PATH, for what is to be shown on each. */
export function installedServers(): ServerCommand[] {
  return SERVER_COMMANDS.filter(
    (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0,
  );
}

class ChildServer implements RedisServer {
  readonly url: string;
  #child: ChildProcess;

  constructor(
    child: ChildProcess,
    private readonly command: string,
    readonly port: number,
    private readonly directory: string,
    private readonly args: readonly string[],
  ) {
    this.#child = child;
    this.url = `redis://127.0.0.1:${port}`;
  }

  get pid(): number {
    return pidOf(this.#child);
  }

  async stop(): Promise<void> {
    await this.#end();
    rmSync(this.directory, { recursive: true, force: true });
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  async restart(): Promise<void> {
    await this.#end();
    this.#child = await launch(this.command, this.port, this.directory, this.args);
  }

  // SIGKILL, as SIGTERM waits behind SIGSTOP. There is nothing to save.
  async #end(): Promise<void> {
    if (hasEnded(this.#child)) return;
    const ended = once(this.#child, 'exit');
    this.#child.ref();
    this.#child.kill('SIGKILL');
    await ended;
  }
}

class PortTakenError extends Error {}

async function launch(
  command: string,
  port: number,
  directory: string,
  args: readonly string[],
): Promise<ChildProcess> {
  const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory];
  const volatile = ['--save', '', '--appendonly', 'no'];
  const child = spawn(command, [...own, ...volatile, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithUs(child, directory);
  await readiness(child, port);
  // Nobody ends a server of a test file that failed half way: it must not keep its worker alive.
  leaveBehind(child);
  return child;
}

// Jest kills by SIGKILL the worker that does not end soon, as on a busy machine. However we end,
// the system closes our end of this pipe, and then `read` returns.
function endWithUs(child: ChildProcess, directory: string): void {
  // It could not be started; an 'error' event tells why.
  if (child.pid === undefined) return;
  const script = 'read -r _; kill -9 "$0"; rm -rf "$1"';
  const guard = spawn('sh', ['-c', script, `${child.pid}`, directory], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // A process group of its own: Ctrl-C has to leave it there.
    detached: true,
  });
  child.once('exit', () => guard.kill());
  leaveBehind(guard);
}

function leaveBehind(child: ChildProcess): void {
  child.unref();
  for (const stream of child.stdio) if (stream instanceof Socket) stream.unref();
}

// The log says both whether the server is ready and whether the port was taken; polling the port
// would take another process's server on the same port for ours.
async function readiness(
  child: ChildProcessByStdio<null, Readable, Readable>,
  port: number,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const log: string[] = [];
    child.once('error', reject);
    child.once('close', (code) => {
      const said = log.join('\n');
      const Failure = /address already in use/i.test(said) ? PortTakenError : Error;
      reject(new Failure(`The Redis server for port ${port} ended with code ${code}:\n${said}`));
    });
    createInterface(child.stderr).on('line', (line) => log.push(line));
    createInterface(child.stdout).on('line', (line) => {
      log.push(line);
      if (/ready to accept connections/i.test(line)) resolve();
    });
  });
}

function firstInstalled(): ServerCommand {
  const [found] = installedServers();
  if (found !== undefined) return found;
  throw new Error(
    `Expected ${SERVER_COMMANDS.join(' or ')} on PATH, found neither; install one of them.`,
  );
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error('The Redis server was never started.');
  return child.pid;
}

const SERVER_COMMANDS: readonly ServerCommand[] = ['redis-server', 'valkey-server'];
const START_ATTEMPTS_MAX = 10;

// Below the ports that systems give to outgoing connections: one of those could take the port of a
// server while it restarts. Two workers may still choose the same one, and the later tries again.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
