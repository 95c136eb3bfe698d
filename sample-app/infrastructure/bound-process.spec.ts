import { afterEach, describe, expect, it } from '@jest/globals';

import { BoundProcess } from './bound-process.js';

describe('BoundProcess', () => {
  const started: BoundProcess[] = [];

  function start(script: string): BoundProcess {
    const child = new BoundProcess('sh', ['-c', script]);
    started.push(child);
    return child;
  }

  afterEach(async () => {
    await Promise.all(started.splice(0).map((child) => child.end('SIGKILL')));
  });

  it('tells the first line that matches', async () => {
    const [, port] = await start('echo one; echo port 42; exec sleep 60').line(/^port (\d+)$/);

    expect(port).toBe('42');
  });

  it('tells what a process said that ends before such a line', async () => {
    const line = start('echo no luck >&2; exit 3').line(/ready/);

    await expect(line).rejects.toThrow('no luck');
  });

  it('tells that a program is not there', async () => {
    const line = new BoundProcess('/no/such/program', []).line(/ready/);

    await expect(line).rejects.toThrow('ENOENT');
  });

  it('ends a process that is frozen, and one that has ended', async () => {
    const frozen = start('echo ready; exec sleep 60');
    await frozen.line(/ready/);
    frozen.freeze();

    await frozen.end('SIGKILL');
    await frozen.end('SIGKILL');

    expect(isAlive(frozen.pid)).toBe(false);
  });
});

function isAlive(pid: number | undefined): boolean {
  try {
    process.kill(pid ?? 0, 0);
    return true;
  } catch {
    return false;
  }
}
