// So that the bench cannot rot: one scenario, for an instant, in this process. Its figures mean
// nothing here.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { soloists } from '../../bench/candidates/catalogue.js';
import { countCommands } from '../../bench/measure/wire-counter.js';
import { launchInProcess } from '../../bench/processes/in-process.js';
import { writeReport } from '../../bench/report/report.js';
import { describeMachine } from '../../bench/report/results.js';
import { oneAtATime } from '../../bench/scenarios/s1-one-at-a-time.js';
import type { Group } from '../../bench/scenarios/scenario.js';

describe('the bench', () => {
  let groups: Group[] = [];

  beforeAll(async () => {
    groups = await oneAtATime.run({
      pace: { seconds: 0.05, rounds: 1 },
      isQuick: true,
      isFresh: false,
      only: null,
      launch: launchInProcess,
      log: () => undefined,
    });
  });

  it('measures every candidate', () => {
    const rows = groups.flatMap((group) => group.rows);

    expect(rows.map(({ candidate, failure }) => [candidate, failure])).toEqual(
      soloists.map((candidate) => [candidate, null]),
    );
    for (const { figures } of rows) expect(figures.acquireP50?.median).toBeGreaterThan(0);
  });

  it('has the limits send as many commands as plain ioredis, and as we', () => {
    const commands = groups[0]?.rows
      .filter(({ candidate }) => /^(ours|ioredis|socket|script)/.test(candidate))
      .map(({ figures }) => Math.round(figures.commands?.median ?? 0));

    expect(commands).toEqual([6, 6, 6, 6, 6, 6]);
  });

  describe('the report', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-bench-'));

    afterAll(() => rmSync(folder, { recursive: true }));

    it('has the figures, a table with the goals, and pictures', () => {
      const { id, metrics, plotted, question, title } = oneAtATime;
      const record = {
        ...{ id, metrics, plotted, question, title, groups },
        pace: { seconds: 0.05, rounds: 1 },
        isQuick: true,
        command: 'npm test',
        measuredAt: '2026-01-01T00:00:00.000Z',
        duration: 1,
        machine: describeMachine('redis 7'),
      };

      writeReport(folder, { scenarios: [record] });

      expect(readdirSync(folder).sort()).toEqual([
        'results.json',
        'results.md',
        's1-acquirep50.svg',
        's1-acquirep99.svg',
      ]);
      expect(readFileSync(join(folder, 'results.md'), 'utf8')).toMatch(/acquire p50 over the bare/);
    });
  });

  it('knows of callers that go on trying after their measurement', async () => {
    const settings = { ttl: 10_000, patience: 5_000 };
    const candidate = await launchInProcess({ candidate: 'ours-memory', urls: [], settings });
    await candidate.run('take', { resource: 'r' }, 1_000);
    const hotKey = { resource: 'r', callers: 2, seconds: 0.02, section: 1, grace: 0 };
    const { stuck } = await candidate.run('hotKey', { ...hotKey, stateUrl: null }, 1_000);

    const before = await candidate.run('rest', { patience: 20 }, 1_000);
    await candidate.run('give', { resource: 'r' }, 1_000);
    const after = await candidate.run('rest', { patience: 5_000 }, 6_000);

    expect([stuck, before, after]).toEqual([2, false, true]);
    await candidate.stop();
  });

  it('counts whole commands, and leaves the beginning of the next one', () => {
    const bytes = Buffer.from(
      '*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$5\r\na\r\n*1\r\n*2\r\n$3\r\nGET',
    );

    expect(countCommands(bytes)).toEqual({ commands: 2, end: 38 });
  });
});
