import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import { seedsOn } from './mutant-page.js';
import { mutants } from './mutants.js';

const root = process.cwd();
const page = readFileSync(join(root, 'test/simulation/MUTANTS.md'), 'utf8');

describe('the mutants', () => {
  it.each(mutants)('can still be made: $name', ({ patches }) => {
    expect(patches.length).toBeGreaterThan(0);
    for (const { file, find, replace } of patches) {
      const parts = readFileSync(join(root, file), 'utf8').split(find);

      expect([file, find, parts.length - 1]).toEqual([file, find, 1]);
      expect(replace).not.toBe(find);
    }
  });

  it('are at least 25, and each is in MUTANTS.md as caught', () => {
    expect(mutants.length).toBeGreaterThanOrEqual(25);
    expect([...seedsOn(page).keys()]).toEqual(mutants.map(({ name }) => name));
  });
});
