// The goals of the project, and whether they were reached: ratios within one run.
import { kindOf } from '../candidates/catalogue.js';
import { ratioOf, type Figure } from '../measure/statistics.js';
import type { Row, ScenarioId } from '../scenarios/scenario.js';
import type { Results } from './results.js';

/** One goal, checked. */
export interface GoalCheck {
  readonly scenario: ScenarioId;
  /** Which candidate is checked, and where. */
  readonly subject: string;
  readonly goal: string;
  readonly value: number;
  /** Least and greatest of the rounds; null if there is only one figure. */
  readonly spread: readonly [number, number] | null;
  readonly bound: number;
  readonly isAtLeast: boolean;
}

/** Whether the goal was reached. */
export function isReached({ bound, isAtLeast, value }: GoalCheck): boolean {
  return isAtLeast ? value >= bound : value <= bound;
}

/** How far off the bound, as a share of it: 0.2 is 20 % short of it or beyond it. */
export function missOf({ bound, value }: GoalCheck): number {
  return bound === 0 ? value : Math.abs(value - bound) / bound;
}

/** All goals for which there are figures. */
export function checkGoals(results: Results): GoalCheck[] {
  return [
    ...checkOneAtATime(results),
    ...checkInFlight(results),
    ...checkHotKey(results),
    ...checkProcesses(results),
    ...checkFaults(results),
    ...checkWatchdog(results),
    ...checkHandover(results),
    ...checkDecorator(results),
  ];
}

const OURS = ['ours', 'ours-unfenced'] as const;

function checkOneAtATime(results: Results): GoalCheck[] {
  const rows = rowsOf(results, 'S1', 'N = 3');
  return OURS.flatMap((name) =>
    check('S1', `${name}, N = 3`, 'acquire p50 over the bare socket’s', 'most', 1.15, [
      ratio(rows, name, 'socket', 'acquireP50'),
    ]),
  );
}

function checkInFlight(results: Results): GoalCheck[] {
  const goals = [
    { name: 'ours-unfenced', peer: 'node-redlock', bound: 8 },
    { name: 'ours-unfenced', peer: 'socket', bound: 0.85 },
    { name: 'ours', peer: 'node-redlock', bound: 4 },
    { name: 'ours', peer: 'socket', bound: 0.5 },
  ];
  return ['N = 3', 'N = 5'].flatMap((nodes) => {
    const rows = rowsOf(results, 'S2', `${nodes}, 512 in flight`);
    return goals.flatMap(({ bound, name, peer }) =>
      check('S2', `${name}, ${nodes}, 512`, `pairs per second over ${peer}`, 'least', bound, [
        ratio(rows, name, peer, 'rate'),
      ]),
    );
  });
}

function checkHotKey(results: Results): GoalCheck[] {
  const rows = rowsOf(results, 'S3', '');
  return OURS.flatMap((name) => {
    const figures = rows.get(name)?.figures ?? {};
    const { commands, fairness, ideal, overlaps, waitMax } = figures;
    const overIdeal = waitMax && ideal ? ratioOf(waitMax, ideal) : undefined;
    return [
      ...check('S3', name, 'wait max over the ideal', 'most', 2, [overIdeal]),
      ...check('S3', name, 'fairness', 'least', 0.9, [fairness]),
      ...check('S3', name, 'commands per acquisition', 'most', 4, [commands]),
      ...check('S3', name, 'overlaps (most in a round)', 'most', 0, [worst(overlaps)]),
    ];
  });
}

function checkProcesses(results: Results): GoalCheck[] {
  const rows = rowsOf(results, 'S4', '');
  const peers = [...rows.values()].filter(
    ({ candidate, failure }) => failure === null && kindOf(candidate) === 'peer',
  );
  const best = (key: string, sign: number): Row | undefined => {
    const median = (row: Row): number => (row.figures[key]?.median ?? NaN) * sign;
    return [...peers].sort((one, other) => median(other) - median(one))[0];
  };
  const fastest = best('rate', 1);
  const promptest = best('waitP99', -1);
  return OURS.flatMap((name) => {
    const figures = rows.get(name)?.figures ?? {};
    const rate = fastest && ratio(rows, name, fastest.candidate, 'rate');
    const wait = promptest && ratio(rows, name, promptest.candidate, 'waitP99');
    const rateGoal = `acquisitions per second over the best peer (${fastest?.label ?? '-'})`;
    const waitGoal = `wait p99 over the best peer (${promptest?.label ?? '-'})`;
    return [
      ...check('S4', name, rateGoal, 'least', 1.1, [rate]),
      ...check('S4', name, waitGoal, 'most', 1 / 3, [wait]),
      ...check('S4', name, 'fairness', 'least', 0.7, [figures.fairness]),
      ...check('S4', name, 'overlaps (most in a round)', 'most', 0, [worst(figures.overlaps)]),
    ];
  });
}

// S6's "as if the slow node were not there" is read as what S5 asks of a dead node. A heap is flat
// if it no longer grows once the node is known to be dead: finding that out has its own column.
function checkFaults(results: Results): GoalCheck[] {
  const faults = [3, 5].flatMap((count) => [
    { id: 'S5' as const, title: `one of ${count} nodes frozen` },
    { id: 'S5' as const, title: `one of ${count} nodes killed` },
  ]);
  return [...faults, { id: 'S6' as const, title: '' }].flatMap(({ id, title }) => {
    const rows = rowsOf(results, id, title);
    return OURS.flatMap((name) => {
      const figures = rows.get(name)?.figures ?? {};
      const subject = title === '' ? name : `${name}, ${title}`;
      const latencies = ['acquireP50', 'acquireP99', 'releaseP50', 'releaseP99'].flatMap((key) => {
        const [faulty, healthy] = [figures[key], figures[`healthy.${key}`]];
        const over = faulty && healthy ? ratioOf(faulty, healthy) : undefined;
        const label = key.replace('P', ' p');
        return check(id, subject, `${label} over the healthy one`, 'most', 1.3, [over]);
      });
      const growth = 'memory growth in 10 s after the transition, kB';
      const memory = check(id, subject, growth, 'most', 1_000, [figures.memory]);
      return [...latencies, ...memory];
    });
  });
}

function checkWatchdog(results: Results): GoalCheck[] {
  const rows = rowsOf(results, 'S7', '10000 locks');
  return OURS.flatMap((name) => {
    const { commands, delayP99, lost } = rows.get(name)?.figures ?? {};
    const subject = `${name}, 10,000 locks`;
    return [
      ...check('S7', subject, 'locks lost', 'most', 0, [lost]),
      ...check('S7', subject, 'commands per second to each node', 'most', 100, [commands]),
      ...check('S7', subject, 'event-loop delay p99, ms', 'most', 5, [delayP99]),
    ];
  });
}

function checkHandover(results: Results): GoalCheck[] {
  const rows = rowsOf(results, 'S8', '');
  return OURS.flatMap((name) => {
    const { p50, p99 } = rows.get(name)?.figures ?? {};
    return [
      ...check('S8', name, 'p50, ms', 'most', 2, [p50]),
      ...check('S8', name, 'p99, ms', 'most', 6, [p99]),
    ];
  });
}

function checkDecorator(results: Results): GoalCheck[] {
  const added = rowsOf(results, 'S9', '').get('locked')?.figures.added;
  return check('S9', '@Locked', 'added to using, µs', 'most', 5, [added]);
}

function check(
  scenario: ScenarioId,
  subject: string,
  goal: string,
  side: 'least' | 'most',
  bound: number,
  [figure]: readonly [Figure | undefined],
): GoalCheck[] {
  if (figure === undefined) return [];
  const { max, median, min, samples } = figure;
  const spread = samples.length > 1 ? ([min, max] as const) : null;
  return [{ scenario, subject, goal, value: median, spread, bound, isAtLeast: side === 'least' }];
}

function rowsOf(results: Results, id: ScenarioId, title: string): Map<string, Row> {
  const record = results.scenarios.find((scenario) => scenario.id === id);
  const group = record?.groups.find((candidate) => candidate.title === title);
  return new Map(group?.rows.map((row) => [row.candidate, row]));
}

function ratio(
  rows: Map<string, Row>,
  name: string,
  other: string,
  key: string,
): Figure | undefined {
  const one = rows.get(name)?.figures[key];
  const two = rows.get(other)?.figures[key];
  return one && two && ratioOf(one, two);
}

// Where once is too often, the worst round counts, not the median.
function worst(figure: Figure | undefined): Figure | undefined {
  return figure && { ...figure, median: figure.max };
}
