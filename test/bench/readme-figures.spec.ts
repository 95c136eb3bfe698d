import { readFileSync } from 'node:fs';

import { describe, expect, it } from '@jest/globals';

const read = (file: string): string =>
  readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

/** The rows of a scenario's tables in the results, by the candidates' names. */
function rowsOf(scenario: string, part = ''): Map<string, string> {
  const results = read('bench/results/results.md');
  const section = results.split(`\n## ${scenario}: `)[1]?.split('\n## ')[0] ?? '';
  const table =
    part === '' ? section : (section.split(`### ${part}\n`)[1]?.split('\n### ')[0] ?? '');
  const rows = [...table.matchAll(/^\| ([^|]+) \|(.*)\|$/gm)];
  return new Map(rows.map(([, name = '', figures = '']) => [name.trim(), figures]));
}

const candidates = [
  'nestjs-locked',
  'nestjs-locked, fencing: false',
  'node-redlock',
  'redis-semaphore',
  'redlock-universal',
];

describe("the README's figures on speed", () => {
  const section = read('README.md').split('## Speed\n')[1]?.split('\n## ')[0] ?? '';
  const table = section.split('\n').filter((line) => line.startsWith('| '));

  it.each([
    ['512 in flight', 'S2', 'N = 3, 512 in flight'],
    ['commands on the wire per pair', 'S2', 'N = 3, 512 in flight'],
    ['one at a time', 'S1', 'N = 3'],
    ['4 processes', 'S4', ''],
    ['the same, longest wait', 'S4', ''],
    ['from a release', 'S8', ''],
    ['10,000 locks', 'S7', '10000 locks'],
    ['of those, locks lost', 'S7', '10000 locks'],
  ])('are those of the kept results: %s', (start, scenario, part) => {
    const [, ...figures] = table
      .find((line) => line.startsWith(`| ${start}`))
      ?.split('|')
      .slice(1, -1)
      .map((cell) => cell.trim().replace(/ (ms|µs)$/, '')) ?? [''];
    const rows = rowsOf(scenario, part);

    const isKept = figures.map((figure, index) => {
      const cells = rows.get(candidates[index] ?? '')?.split('|') ?? [];
      return cells.some((cell) => cell.trim().split(' ')[0] === figure);
    });

    expect(figures).toHaveLength(candidates.length);
    expect(isKept).toEqual(candidates.map(() => true));
  });
});
