import { readFileSync } from 'node:fs';

import { describe, expect, it } from '@jest/globals';

const read = (file: string): string =>
  readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

/** A column of one table of the results. */
interface Column {
  /** The folder of a run beside the full one. */
  readonly run?: string;
  readonly scenario: string;
  /** The heading above the table, where the scenario has several. */
  readonly part?: string;
  readonly column: string;
}

/** What follows the heading that begins so, up to the next of its rank. */
function below(heading: string, text: string): string {
  const [rank = ''] = heading.split(' ');
  return text.split(`\n${heading}`)[1]?.split(`\n${rank} `)[0] ?? '';
}

/** The cells of a table, row by row. */
function rowsIn(text: string): string[][] {
  return [...text.matchAll(/^\| (.*)\|$/gm)].map(([, cells = '']) =>
    cells.split('|').map((cell) => cell.trim()),
  );
}

/** The kept results, of the full run or of another. */
const resultsOf = (run = ''): string => read(`bench/results/${run}results.md`);

/** The median that the kept results have for a candidate. */
function kept(candidate: string, { run, scenario, part, column }: Column): string | undefined {
  const section = below(`## ${scenario}: `, resultsOf(run));
  const [head = [], ...rows] = rowsIn(
    part === undefined ? section : below(`### ${part}\n`, section),
  );
  const row = rows.find(([name]) => name === candidate);
  return row?.[head.indexOf(column)]?.split(' ')[0];
}

const candidates = [
  'nestjs-locked',
  'nestjs-locked, fencing: false',
  'node-redlock',
  'redis-semaphore',
  'redlock-universal',
];

const inFlight = { scenario: 'S2', part: 'N = 3, 512 in flight' };
const apart = { scenario: 'S11', part: '512 callers' };
const underWatchdog = { scenario: 'S7', part: '10000 locks' };
const rate = { ...inFlight, column: 'pairs per second, /s' };
const alone = { scenario: 'Q', part: '1 in flight' };
const together = { scenario: 'Q', part: '512 in flight' };
const byOne = { scenario: 'S1', part: 'N = 3', column: 'acquire p50, µs' };
const perNode = 'commands per second to each node, /s';
const perSecond = { scenario: 'S4', column: 'acquisitions per second, /s' };

/** How each row of the README's table begins, and where its figures are from. */
const origins: Record<string, Column> = {
  '512 in flight, pairs': rate,
  'the same, each caller by itself': { ...apart, column: 'pairs per second, /s' },
  'commands on the wire per pair': { ...inFlight, column: 'commands on the wire per pair' },
  'one at a time, acquisition, p50': byOne,
  '4 processes, 8 callers each': { scenario: 'S4', column: 'fairness (fewest / most)' },
  'the same, longest wait, p99': { scenario: 'S4', column: 'wait p99, ms' },
  'from a release to the acquisition in another process, p50': {
    scenario: 'S8',
    column: 'p50, ms',
  },
  'the same while 999 other calls wait': { scenario: 'S10', column: 'p50, ms' },
  '1,000 waiting calls, commands per second': { scenario: 'S10', column: perNode },
  '10,000 locks under the watchdog, commands per second': { ...underWatchdog, column: perNode },
  'of those, locks lost': { ...underWatchdog, column: 'locks lost' },
};

describe("the README's figures on speed", () => {
  const section = below('## Speed\n', read('README.md'));
  const [, ...rows] = rowsIn(section);
  const text = section.replaceAll(/\s+/g, ' ');

  it.each(Object.entries(origins))('are those of the kept results: %s', (start, column) => {
    const [, ...figures] = rows.find(([name]) => name?.startsWith(start)) ?? [];

    const told = figures.map((figure) => figure.replace(/ (ms|µs|%)$/, ''));

    expect(told).toEqual(candidates.map((candidate) => kept(candidate, column)));
  });

  it('are said to be without the quarantine that is on by default, by the results as well', () => {
    const [, note = ''] = /^- \*\*nestjs-locked\*\* .*?: (.*)$/m.exec(resultsOf()) ?? [];

    expect(note).toMatch(/quarantine, which is off/);
    expect(text).toMatch(/Quarantine is off there.*docs\/SPEED\.md#quarantine/);
  });

  it('have an origin, each row of them', () => {
    const starts = Object.keys(origins);

    const found = rows.map(([name]) => starts.find((start) => name?.startsWith(start)));

    expect(found).toEqual(starts);
  });

  it('are those of the kept results in the text below the table, too', () => {
    const hot = /redlock-universal makes ([\d,]+) to our ([\d,]+)/.exec(text)?.slice(1);
    const bare = /makes ([\d,]+) pairs per second/.exec(text)?.[1];

    expect(hot).toEqual([kept('redlock-universal', perSecond), kept('nestjs-locked', perSecond)]);
    expect(bare).toBe(kept('bare socket', rate));
  });
});

describe('the kept results', () => {
  it('name the versions of what was measured, for each scenario', () => {
    const [sources = ''] = resultsOf().split('## Goals');
    const [, ...scenarios] = rowsIn(sources).filter(([id]) => id !== '---');

    expect(scenarios.length).toBe(13);
    for (const cells of scenarios) {
      expect(cells.at(-1)).toMatch(
        /Node v[\d.]+, redis [\d.]+; ioredis \d.*, redlock \d.*, redis-semaphore \d.*, redlock-universal \d/,
      );
    }
  });
});

/** How each table of docs/SPEED.md begins, and where its columns are from. */
const tables: Record<string, readonly Column[]> = {
  'three nodes, one at a time': [
    byOne,
    { scenario: 'S1', part: 'N = 3', column: 'release p50, µs' },
  ],
  'three nodes, 512 callers': [
    rate,
    { ...inFlight, column: 'our CPU per pair, µs' },
    { ...inFlight, column: 'redis CPU per pair, all nodes, µs' },
  ],
  '512 callers, each by itself': [
    { ...apart, column: 'pairs per second, /s' },
    { ...apart, column: 'our CPU per pair, µs' },
    { ...apart, column: 'redis CPU per pair, all nodes, µs' },
    { ...apart, column: 'commands on the wire per pair' },
  ],
  'one hot key, 4 processes': [
    perSecond,
    { scenario: 'S4', column: 'wait p99, ms' },
    { scenario: 'S4', column: 'fairness (fewest / most)' },
  ],
  'one of three processes 20 ms farther away': [
    { scenario: 'S12', column: 'of the process with the fewest, per second, /s' },
    { scenario: 'S12', column: 'acquisitions per second, /s' },
    { scenario: 'S12', column: 'fairness (fewest / most)' },
  ],
  '1,000 calls wait for what another process holds': [
    { scenario: 'S10', column: 'CPU of one core, %' },
    { scenario: 'S10', column: perNode },
    { scenario: 'S10', column: 'p50, ms' },
  ],
  'three nodes, with quarantine and without': [
    { ...alone, column: 'acquire p50, µs' },
    { ...alone, column: 'redis CPU per pair, all nodes, µs' },
    { ...together, column: 'pairs per second, /s' },
    { ...together, column: 'redis CPU per pair, all nodes, µs' },
  ],
};

/** From the least of these figures to the greatest. */
const rangeOf = (figures: readonly string[]): string => {
  const sorted = [...figures].sort((one, other) => Number(one) - Number(other));
  return `${sorted[0]} to ${sorted.at(-1)}`;
};

describe('the figures of docs/SPEED.md', () => {
  const text = read('docs/SPEED.md');
  const tableOf = (title: string): string[][] => {
    const [, table = ''] = text.split(`| ${title} |`);
    return rowsIn(`|${table.split('\n\n')[0] ?? ''}`).slice(1);
  };

  it.each(Object.entries(tables))('are those of the kept results: %s', (title, columns) => {
    const rows = tableOf(title);

    expect(rows.length).toBeGreaterThanOrEqual(2);
    for (const [candidate = '', ...figures] of rows) {
      const told = figures.map((figure) => figure.replace(/ (ms|µs|%)$/, ''));
      expect(told).toEqual(columns.map((column) => kept(candidate, column)));
    }
  });

  it('have an origin, each table of them, but for the profiles of one run', () => {
    const titles = [...text.matchAll(/^\| ([^|]+) \|.*\n\| ?:?--/gm)].map(([, title]) => title);
    const others = ['scenario', 'many in flight (S2)', 'one at a time (S1)'];

    expect(titles.sort()).toEqual([...others, ...Object.keys(tables)].sort());
  });

  const sentences = text.replaceAll(/\s+/g, ' ');
  const numberOf = (candidate: string, column: Column): number =>
    Number(kept(candidate, column)?.replaceAll(',', ''));
  const ratioOf = (candidate: string, other: string, column: Column): string =>
    (numberOf(candidate, column) / numberOf(other, column)).toFixed(2);

  it('are those of the kept results in the text, too', () => {
    const timesAsLong = (candidate: string): string => ratioOf(candidate, 'bare socket', byOne);
    const lateness = (what: string): string | undefined =>
      rowsIn(below('## Goals\n', resultsOf()))
        .find(([id, who, goal]) => id === 'S6' && who === 'ours' && goal?.startsWith(what))?.[3]
        ?.split(' ')[0];
    const slowdown = (faulty: Column): (string | undefined)[] => {
      const healthy = { ...faulty, column: `healthy: ${faulty.column}` };
      const ratio = numberOf('bare socket', faulty) / numberOf('bare socket', healthy);
      return [kept('bare socket', faulty), kept('bare socket', healthy), ratio.toFixed(2)];
    };

    const scripts = /it takes ([\d.]+) times as long with fencing and ([\d.]+) times/.exec(
      sentences,
    );
    const hot = /the bare socket, which makes ([\d,]+) per second/.exec(sentences);
    const commands =
      /takes ([\d.]+) commands on the wire where theirs take ([\d.]+) and ([\d.]+)\./.exec(
        sentences,
      );
    const perTurn = { scenario: 'S4', column: 'commands on the wire per acquisition' };
    const few = /takes ([\d.]+) µs of our CPU where plain ioredis takes ([\d.]+)/.exec(sentences);
    const cpuOfFew = { scenario: 'S11', part: '64 callers', column: 'our CPU per pair, µs' };
    const late = /took ([\d.]+) times as long as without it, and its p99 ([\d.]+) times/.exec(
      sentences,
    );
    const p99 =
      /was ([\d,.]+) µs with the slow node and ([\d,.]+) µs without, which is ([\d.]+) times/;

    expect(scripts?.slice(1)).toEqual([
      timesAsLong('bare socket, our scripts'),
      timesAsLong('bare socket, our scripts, fencing: false'),
    ]);
    expect(hot?.[1]).toBe(kept('bare socket', perSecond));
    expect(commands?.slice(1)).toEqual(
      ['nestjs-locked', 'redlock-universal', 'redis-semaphore'].map((who) => kept(who, perTurn)),
    );
    expect(few?.slice(1)).toEqual(
      ['nestjs-locked', 'plain ioredis'].map((who) => kept(who, cpuOfFew)),
    );
    expect(late?.slice(1)).toEqual([
      lateness('acquire p50 over the healthy one'),
      lateness('acquire p99 over the healthy one'),
    ]);
    const ofS6 = slowdown({ scenario: 'S6', column: 'acquire p99, µs' });
    expect(p99.exec(sentences)?.slice(1)).toEqual(ofS6);
    const dead = { scenario: 'S5', part: 'one of 3 nodes killed', column: 'acquire p50, µs' };
    const [deadP50, p50, times] = slowdown(dead);
    expect(sentences).toContain(
      `took ${deadP50} µs with a node killed and ${p50} µs without, which is ${times} times`,
    );
  });

  it('are those of the runs beside the full one, where it compares with these', () => {
    const piped = { ...rate, run: 'auto-pipelining/' };
    const awake = { ...byOne, run: 'awake/' };
    const peers = ['node-redlock', 'redis-semaphore', 'redlock-universal'];
    const leads = (column: Column): string =>
      rangeOf(peers.map((peer) => ratioOf('nestjs-locked', peer, column)));
    const s5 = rowsIn(below('## Goals\n', resultsOf('awake/'))).filter(
      ([id, who, goal]) => id === 'S5' && who?.includes('of 3 nodes') && goal?.includes('p50'),
    );
    const medians = rangeOf(s5.map(([, , , measured = '']) => measured.split(' ')[0] ?? ''));
    const killed = { run: 'awake/', scenario: 'S5', part: 'one of 3 nodes killed' };

    const ratios = ['nestjs-locked', 'nestjs-locked, fencing: false']
      .map((who) => ratioOf(who, 'node-redlock', rate))
      .join(" times node-redlock's with fencing and ");
    expect(sentences).toContain(`ours is ${ratios} times without`);
    expect(sentences).toContain(`ours makes ${leads(piped)} times as many pairs per second`);
    expect(sentences).toContain(`where it makes ${leads(rate)} times as many without`);
    const slowdowns = [
      ['nestjs-locked', 'nestjs-locked, fencing: false'],
      ['bare socket, our scripts', 'bare socket, our scripts, fencing: false'],
    ].map((who) => who.map((each) => ratioOf(each, 'bare socket', awake)));
    const awakeText =
      /ours took ([\d.]+) times .*? and ([\d.]+) times without, and our scripts .*? took ([\d.]+) and ([\d.]+) times/;
    expect(awakeText.exec(sentences)?.slice(1)).toEqual(slowdowns.flat());
    expect(sentences).toContain(`with three nodes were ${medians} of the healthy ones`);
    expect(sentences).toContain(
      `too, had a p99 of ${kept('bare socket', { ...killed, column: 'acquire p99, µs' })} µs`,
    );
  });

  it('name every goal that was missed, and by how much', () => {
    const goals = rowsIn(below('## Goals\n', resultsOf()));
    const missed = goals.filter((cells) => cells.at(-1)?.includes('missed'));

    expect(tableOf('scenario')).toEqual(missed);
  });
});
