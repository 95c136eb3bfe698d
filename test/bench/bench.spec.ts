// So that the bench cannot rot: it runs for an instant, in this process. Its figures mean nothing
// here.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { soloists } from '../../bench/candidates/catalogue.js';
import { figureOf } from '../../bench/measure/statistics.js';
import { countCommands } from '../../bench/measure/wire-counter.js';
import { launchInProcess } from '../../bench/processes/in-process.js';
import { writeReport } from '../../bench/report/report.js';
import { describeMachine, readResults } from '../../bench/report/results.js';
import { oneAtATime } from '../../bench/scenarios/s1-one-at-a-time.js';
import { crowd } from '../../bench/scenarios/s10-crowd.js';
import { watchdog } from '../../bench/scenarios/s7-watchdog.js';
import type { CandidateProcess, Launch } from '../../bench/processes/candidate-process.js';
import type { BenchContext, Group } from '../../bench/scenarios/scenario.js';

describe('the bench', () => {
  const context: BenchContext = {
    pace: { seconds: 0.05, rounds: 1 },
    isQuick: true,
    isFresh: false,
    isPipelined: false,
    only: null,
    launch: launchInProcess,
    log: () => undefined,
  };
  let groups: Group[] = [];

  beforeAll(async () => {
    groups = await oneAtATime.run(context);
  });

  const sent = (name: string, key: 'bytes' | 'commands'): number => {
    const row = groups[0]?.rows.find(({ candidate }) => candidate === name);
    return Math.round(row?.figures[key]?.median ?? 0);
  };

  it('measures every candidate', () => {
    const rows = groups.flatMap((group) => group.rows);

    expect(rows.map(({ candidate, failure }) => [candidate, failure])).toEqual(
      soloists.map((candidate) => [candidate, null]),
    );
    for (const { figures } of rows) expect(figures.acquireP50?.median).toBeGreaterThan(0);
  });

  it('has the bare socket client send what plain ioredis sends, command for command', () => {
    expect([sent('ioredis', 'commands'), sent('socket', 'commands')]).toEqual([6, 6]);
  });

  it.each([
    ['script-socket', 'ours'],
    ['script-socket-unfenced', 'ours-unfenced'],
  ])('has the %s client send as much as %s, but for the length of names', (limit, candidate) => {
    expect(sent(limit, 'commands')).toBe(sent(candidate, 'commands'));
    expect(sent(limit, 'bytes') / sent(candidate, 'bytes')).toBeGreaterThan(0.85);
  });

  describe('the report', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-bench-'));

    afterAll(() => rmSync(folder, { recursive: true }));

    const written = (of: readonly Group[]): string => {
      const { id, metrics, plotted, question, title } = oneAtATime;
      const record = {
        ...{ id, metrics, plotted, question, title, groups: of },
        pace: { seconds: 0.05, rounds: 1 },
        isQuick: true,
        command: 'npm test',
        measuredAt: '2026-01-01T00:00:00.000Z',
        duration: 1,
        machine: describeMachine('redis 7', false),
      };
      writeReport(folder, { scenarios: [record] });
      return readFileSync(join(folder, 'results.md'), 'utf8');
    };

    it('has the figures, a table with the goals, and pictures', () => {
      const text = written(groups);

      expect(readdirSync(folder).sort()).toEqual([
        'results.json',
        'results.md',
        's1-acquirep50.svg',
        's1-acquirep99.svg',
      ]);
      expect(text).toMatch(/acquire p50 over the bare/);
    });

    it('takes no goal for reached whose figures were not to be had, also when written anew', () => {
      const first = written(
        groups.map(({ rows, title }) => ({
          title,
          rows: rows.map((row) => {
            const isOurs = row.candidate === 'ours';
            return isOurs ? { ...row, figures: { acquireP50: figureOf([NaN]) } } : row;
          }),
        })),
      );
      writeReport(folder, readResults(folder));
      const again = readFileSync(join(folder, 'results.md'), 'utf8');

      for (const text of [first, again]) {
        expect(text).toMatch(/ours, N = 3 \| acquire p50 over .* – \| not measured/);
      }
    });
  });

  it('knows of callers that go on trying after their measurement', async () => {
    const settings = { ttl: 10_000, patience: 5_000 };
    const candidate = await launchInProcess({ candidate: 'ours-memory', urls: [], settings });
    await candidate.run('take', { resource: 'r' }, 1_000);
    const hotKey = { resource: 'r', callers: 2, seconds: 0.5, section: 1, grace: 0 };
    const { stuck } = await candidate.run('hotKey', { ...hotKey, stateUrl: null }, 1_000);

    const before = await candidate.run('rest', { patience: 20 }, 1_000);
    await candidate.run('give', { resource: 'r' }, 1_000);
    const after = await candidate.run('rest', { patience: 5_000 }, 6_000);

    expect([stuck, before, after]).toEqual([2, false, true]);
    await candidate.stop();
  });

  it('counts no commands while it measures the CPU of many kept locks', async () => {
    const uncounted: number[] = [];
    const launch: Launch = async (setup) => {
      const candidate = await launchInProcess(setup);
      const run: CandidateProcess['run'] = async (name, input, limit) => {
        const output = await candidate.run(name, input, limit);
        if (typeof output === 'object' && 'delayP50' in output && output.wire.commands === 0) {
          uncounted.push((output.cpu / output.duration) * 100);
        }
        return output;
      };
      return { ...candidate, run };
    };

    // The watchdog extends some of the locks in each second.
    const pace = { seconds: 1.2, rounds: 1 };
    const [group] = await watchdog.run({ ...context, pace, only: ['ours'], launch });

    const figures = group?.rows[0]?.figures;
    expect(figures?.cpu?.samples).toEqual(uncounted);
    expect(figures?.commands?.median).toBeGreaterThan(0);
  });

  it('lets calls wait, and then hands them what they wait for, one by one', async () => {
    const [group] = await crowd.run({
      ...context,
      pace: { seconds: 0.5, rounds: 1 },
      only: ['ours'],
    });

    const { failure, figures } = group?.rows[0] ?? {};
    expect([failure, figures?.overlaps]).toEqual([null, undefined]);
    expect(figures?.commands?.median).toBeGreaterThan(0);
    expect(figures?.count?.median).toBeGreaterThan(2);
    expect(figures?.p50?.median).toBeGreaterThan(0);
  });

  it('counts whole commands, and leaves the beginning of the next one', () => {
    const bytes = Buffer.from(
      '*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$5\r\na\r\n*1\r\n*2\r\n$3\r\nGET',
    );

    expect(countCommands(bytes)).toEqual({ commands: 2, end: 38 });
  });
});
