import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import { livenessMutants } from './liveness-mutants.js';
import { Play } from './play.js';
import { scenarios } from './scenarios.js';
import type { PlayPlan } from './choices.js';
import type { PlayOutcome } from './play.js';

const script = join(process.cwd(), 'test/simulation/explore/explore.mjs');

function explore(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

function play(name: string, plan: PlayPlan): Promise<PlayOutcome> {
  const scenario = scenarios.get(name);
  if (scenario === undefined) throw new RangeError(`${name} is no scenario`);
  return new Play(scenario, plan, true).run();
}

describe('small plays', () => {
  it('with one deviation keep all rules, and somebody gets the lock soon', () => {
    const { status, output } = explore('--seconds', '600');

    expect(status === 0 ? '' : output).toBe('');
    expect(output.match(/^\w+: all \d+ plays/gm)).toHaveLength(scenarios.size);
  }, 600_000);

  it('are the same each time for one plan', async () => {
    const [first, second] = [await play('queue', [[20, 2]]), await play('queue', [[20, 2]])];

    expect(first.trace.filter((line) => line.includes('CHOICE'))).toHaveLength(1);
    expect(second).toEqual(first);
  });

  it('may be drawn, with several deviations', () => {
    const { status, output } = explore('--scenario', 'close', '--random', '20', '--from', '7');

    expect(status === 0 ? '' : output).toBe('');
    expect(output).toMatch(/^close: \d+ plays/);
  });
});

describe('a mutant', () => {
  const cases = [
    ['leases', 'unknown counted as granted', 'basic'],
    ['leftovers', 'no undo', 'basic'],
    ['told twice', 'double-counted answer', 'rounds'],
    ['liveness', 'a decided first attempt keeps its room', 'basic'],
    ['idle', 'a bound that a clock sets is followed', 'nodeAhead'],
    ['nobody', 'a split vote is not heard out', 'raceNodeDown'],
    ['nobody', 'several owners count as one', 'raceStranger'],
    ['nobody', 'the tie-breaker is believed at once', 'raceStranger'],
    ['nobody', 'the same node breaks the tie again after pauses alike', 'raceStranger'],
  ] as const;

  it('has a case here if the universes are not judged by what it does', () => {
    const inCases = cases.map(([, mutant]): string => mutant);

    expect(inCases).toEqual(expect.arrayContaining(livenessMutants.map(({ name }) => name)));
  });

  it.each(cases)('is seen, as %s, and its play can be told: %s', (check, mutant, scenario) => {
    const { status, output } = explore('--mutant', mutant, '--scenario', scenario);

    expect(status).toBe(1);
    expect(output).toMatch(new RegExp(`^FAILED at [\\d.]+: ${check}: `, 'm'));
    expect(output).toContain(`npm run explore -- --scenario ${scenario} --replay '[`);
  });
});
