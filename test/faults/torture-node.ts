// A server of a torture run, and what can be done to it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redis } from 'ioredis';
import type { Milliseconds } from 'nestjs-locked';

import { startRedisServer, type RedisServer } from '../support/redis-servers.js';

/** A redis-server process with a folder of its own. */
export class TortureNode {
  private constructor(
    readonly server: RedisServer,
    private readonly folder: string,
  ) {}

  static async start(): Promise<TortureNode> {
    const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-node-'));
    const replication = ['--repl-diskless-sync-delay', '0', '--rdb-del-sync-files', 'yes'];
    const args = ['--dir', folder, '--enable-debug-command', 'local', ...replication];
    return new TortureNode(await startRedisServer({ args }), folder);
  }

  /** Runs a command on a connection of its own. Rejects when the server does not answer. */
  async call(command: string, ...args: readonly string[]): Promise<unknown> {
    const client = new Redis(this.server.url, {
      enableReadyCheck: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      commandTimeout: CALL_TIMEOUT,
    });
    client.on('error', () => undefined);
    try {
      return await client.call(command, [...args]);
    } finally {
      client.disconnect();
    }
  }

  /** The same, for as long as it takes until it has succeeded. */
  async callUntilDone(command: string, ...args: readonly string[]): Promise<unknown> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.call(command, ...args);
      } catch (error) {
        if (attempt === ATTEMPTS_MAX) throw error;
        await sleep(ATTEMPT_PAUSE);
      }
    }
  }

  /** Starts it anew after a SIGKILL: without any key, or with those of the last SAVE. */
  async restart(from: 'nothing' | 'snapshot'): Promise<void> {
    if (from === 'nothing') rmSync(join(this.folder, 'dump.rdb'), { force: true });
    await this.server.restart();
  }

  /** Resolves when it answers, as a master. */
  async whenHealthy(): Promise<void> {
    const role = await this.callUntilDone('ROLE');
    if (!Array.isArray(role) || role[0] !== 'master') {
      throw new Error(`${this.server.url} is no master: ${JSON.stringify(role)}`);
    }
  }

  /** All keys, but for the certificate and what stands beside it, which are meant to stay. */
  async leftovers(): Promise<string[]> {
    const keys = (await this.callUntilDone('KEYS', '*')) as string[];
    return keys.filter((key) => !['redlock:node', 'redlock:rules'].includes(key));
  }

  async stop(): Promise<void> {
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const CALL_TIMEOUT: Milliseconds = 3_000;
const ATTEMPT_PAUSE: Milliseconds = 20;
const ATTEMPTS_MAX = 500;
