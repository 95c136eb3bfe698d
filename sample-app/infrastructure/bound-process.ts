// A child process that never outlives this one, not even when this one is killed by SIGKILL.
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable } from 'node:stream';

export class BoundProcess {
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  // Read all the time: a child whose output nobody reads blocks once its pipe is full.
  readonly #outputs: readonly Interface[];
  /** The last lines of its output, for the error message when it fails. */
  readonly #lastLines: string[] = [];

  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
    this.#child = spawn(command, args, {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own: Ctrl-C reaches us alone, and we need it while we shut down.
      detached: true,
    });
    this.#outputs = [this.#child.stdout, this.#child.stderr].map((input) =>
      createInterface({ input }).on('line', (line) => this.#remember(line)),
    );
    this.#endWithUs();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves with the match once a line of output matches; rejects if the child ends first. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      for (const output of this.#outputs) {
        output.on('line', (line) => {
          const match = pattern.exec(line);
          if (match !== null) resolve(match);
        });
      }
      this.#child.once('error', reject);
      this.#child.once('close', () =>
        reject(new Error(`The process ended:\n${this.#lastLines.join('\n')}`)),
      );
    });
  }

  /** Freezes it without closing its connections: it accepts, but answers nothing. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  /** Lets a frozen child go on. */
  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  /** Ends it and resolves when it is gone; at once if it already is. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (this.hasEnded) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill(signal);
    await exited;
  }

  #remember(line: string): void {
    this.#lastLines.push(line);
    if (this.#lastLines.length > LINES_MAX) this.#lastLines.shift();
  }

  #endWithUs(): void {
    const { pid } = this.#child;
    // It could not be started; an 'error' event says why.
    if (pid === undefined) return;
    // However we end, the system closes our end of this pipe, and then `read` returns.
    const guard = spawn('sh', ['-c', 'read -r _; kill -9 "$0"', `${pid}`], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    this.#child.once('exit', () => guard.kill());
  }
}

const LINES_MAX = 50;
