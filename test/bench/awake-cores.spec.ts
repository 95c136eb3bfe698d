import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';

import { describe, expect, it } from '@jest/globals';

import { keepCoresAwake } from '../../bench/processes/awake-cores.js';
import { eventually } from '../support/eventually.js';

describe('keepCoresAwake', () => {
  it('has a process for each core, for what nobody else takes, until its end', async () => {
    const cores = await keepCoresAwake();
    const policyOf = (pid: number): string =>
      execFileSync('chrt', ['--pid', String(pid)], { encoding: 'utf8' });

    expect(cores.pids).toHaveLength(availableParallelism());
    // A process begins as any other.
    await eventually(() => cores.pids.every((pid) => policyOf(pid).includes('SCHED_IDLE')));
    cores.end();
    await eventually(() => cores.pids.every((pid) => !existsSync(`/proc/${pid}`)));
  });
});
