// A share of `npm run torture`: the same program, for some rounds.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { compile } from '../support/compile.js';

describe('four processes that lock over five servers while everything breaks', () => {
  let folder: string;

  beforeAll(() => {
    folder = compile('lib', 'test/faults', 'test/support', 'test/simulation');
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  it('never hold the same lock at once, lose nothing that it guards, and recover', async () => {
    const script = join(folder, 'test/faults/torture.js');
    const options = ['--duration', `${DURATION}`, '--seed', `${SEED}`];

    const { status, output } = await run(script, options);

    expect(output).toMatch(/^violations 0$/m);
    expect(status).toBe(0);
  });

  it('have a schedule that a whole number names, and nothing else', async () => {
    const { status, output } = await run(join(folder, 'test/faults/torture.js'), ['--seed', 'x']);

    expect(output).toMatch(/Expected --seed to be an integer/);
    expect(status).not.toBe(0);
  });
});

async function run(
  script: string,
  options: readonly string[],
): Promise<{ status: unknown; output: string }> {
  const child = spawn(process.execPath, [script, ...options], { timeout: 170_000 });
  const said: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => said.push(chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()));
  const [status] = (await once(child, 'close')) as unknown[];
  return { status, output: said.join('') };
}

/** In s: the last round begins by then. With start and end some 25 s. */
const DURATION = 14;
/** One whose first four rounds have nearly all kinds of faults, and a majority that forgets at once. */
const SEED = 845;
