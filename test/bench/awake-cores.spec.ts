import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';

import { describe, expect, it } from '@jest/globals';

import { keepCoresAwake } from '../../bench/processes/awake-cores.js';
import { eventually } from '../support/eventually.js';

describe('keepCoresAwake', () => {
  it('has a process for each core, for what nobody else takes, until its end', async () => {
    const cores = await keepCoresAwake();
    const policies = cores.pids.map((pid) =>
      execFileSync('chrt', ['--pid', String(pid)], { encoding: 'utf8' }),
    );
    cores.end();

    expect(policies).toHaveLength(availableParallelism());
    for (const policy of policies) expect(policy).toContain('SCHED_IDLE');
    await eventually(() => cores.pids.every((pid) => !existsSync(`/proc/${pid}`)));
  });
});
