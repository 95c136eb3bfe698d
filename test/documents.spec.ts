// What the documents show has to compile, and what they say has to be so.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';

import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

import { resolveOptions } from '../lib/core/options.js';
import { Redlock } from '../lib/core/redlock.js';
import { MemoryNode } from '../lib/nodes/memory-node.js';
import { documents } from './support/project-files.js';

const root = join(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

describe('the code in the documents', () => {
  /** Each with its mark in a line before it. */
  const blocksOf = (file: string): string[] =>
    read(file)
      .split(/^ *(?:```|~~~)/m)
      .filter((_text, index) => index % 2 === 1);
  const blocks = documents.flatMap(blocksOf);
  const snippets = documents.flatMap((file) =>
    blocksOf(file)
      .filter((block) => block.startsWith('ts\n'))
      .map((block, index) => ({
        file: `${file.replace(/\W/g, '-')}-${index + 1}.ts`,
        code: completed(block.replace('ts', '')),
      })),
  );

  it('compiles, each block as a file of its own', () => {
    expect(snippets.length).toBeGreaterThan(10);
    expect(typeErrors(snippets)).toEqual([]);
  });

  it('is marked as TypeScript where it is TypeScript, so that it is compiled', () => {
    const isCode = /^ *(import |export |const |await |@\w+\()/m;

    expect(blocks.filter((block) => !/^(ts|sh|sql|)\n/.test(block))).toEqual([]);
    expect(blocks.filter((block) => block.startsWith('\n') && isCode.test(block))).toEqual([]);
  });
});

describe('the safety page', () => {
  it('counts the mutants that their own page has', () => {
    const counted = (file: string): string[] => read(file).match(/\b\d+ of \d+\b/g) ?? [];

    const [caught] = counted('test/simulation/MUTANTS.md');

    expect(caught).toBeDefined();
    expect(counted('docs/SAFETY.md')).toEqual([caught]);
  });
});

describe('the pause between restarts of nodes on the operations page', () => {
  const page = read('docs/OPERATIONS.md');

  it.each([100, 5_000, 30_000, 86_400_000])(
    'is enough for a late connection, the quarantine, and an extension, with a ttlMax of %i ms',
    (ttlMax) => {
      const { world } = resolveOptions({ ttl: 100, ttlMax }, 3);
      const lateConnection = 3_000;

      expect(page).toContain('or after one and a half times `ttlMax` and 3 s');
      expect(1.5 * ttlMax + 3_000).toBeGreaterThan(lateConnection + world.quarantine + ttlMax / 3);
    },
  );

  it('is the same in seconds for the default', () => {
    const [, seconds = ''] = /`minReadySeconds: (\d+)`/.exec(page) ?? [];

    expect(Number(seconds) * 1_000).toBe(1.5 * resolveOptions({}, 3).ttlMax + 3_000);
  });
});

describe('the two changes in which the operations page renames a resource', () => {
  const page = read('docs/OPERATIONS.md');
  const [, old = '', renamed = ''] = /locked together, `\['(\S+)', '(\S+)'\]`/.exec(page) ?? [];
  const nodes = [1, 2, 3].map(() => new MemoryNode());
  const before = [old];
  const between = [old, renamed];
  const after = [renamed];

  it.each([
    ['before the first', before, between],
    ['before the second', between, after],
  ])('let replicas from %s and after it exclude each other', async (_which, ours, theirs) => {
    const [our, their] = [new Redlock(nodes), new Redlock(nodes)];

    const lock = await our.acquire(ours);
    const meanwhile = await their.tryAcquire(theirs);
    await lock.release();
    const next = await their.acquire(theirs);
    const thereafter = await our.tryAcquire(ours);
    await next.release();

    expect([meanwhile, thereafter]).toEqual([null, null]);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  });
});

describe('the lines of the log that the operations page explains', () => {
  const [, table = ''] = read('docs/OPERATIONS.md').split('## What the log says');
  const cells = table.split('\n## ')[0]?.match(/^\| `.*?(?= \| )/gm) ?? [];
  const lines = cells.flatMap((cell) => cell.match(/(?<=`)[^`]*[^`, ](?=`)/g) ?? []);

  it('are many', () => {
    expect(lines.length).toBeGreaterThan(10);
  });

  it.each(lines)('are what the library says: %s', (line) => {
    const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' });
    const sources = files.filter((file) => file.endsWith('.ts')).map((file) => read(`lib/${file}`));
    // What varies: numbers, names, and what is lost or refused.
    const words = line.split(/…|a lock:|\d+ more:|(?:locks|releases):/);

    const isSaid = (word: string): boolean =>
      sources.some((source) => source.includes(word.trim()));

    expect(words.filter((word) => !isSaid(word))).toEqual([]);
  });
});

describe('the SQL that lets the store refuse late holders', () => {
  /** The updates of a document, each as what it does to a row for one holder. */
  const updatesOf = (file: string): Step[] =>
    [...read(file).matchAll(/UPDATE stock SET (.*?) WHERE (.*?)[;`]/gs)].map(
      ([, changes = '', conditions = '']) =>
        (row, { parameters }) => {
          const evaluate = (expression: string): unknown =>
            runInNewContext(`(${expression})`, { ...row, ...parameters });
          const isMet = evaluate(conditions.replaceAll(' = ', ' === ').replaceAll(' AND ', ' && '));
          if (isMet === true) Object.assign(row, evaluate(`{${changes.replaceAll(' = ', ': ')}}`));
          return isMet === true;
        },
    );

  it('of the README sells no piece twice, in whatever order two holders write', () => {
    const holders = [1, 2].map((token) => ({
      parameters: { $1: token * 4, $2: token, $3: 'a' },
      wanted: token * 4,
    }));

    expect(wrongOutcomes(updatesOf('README.md'), holders)).toEqual([]);
  });

  it('of the safety page is as sound, by the steps of the transactions page, in every order', () => {
    const [register, write] = updatesOf('docs/SAFETY.md');
    const select: Step = ({ quantity }, { parameters, wanted }) => {
      Object.assign(parameters, { $quantity: quantity - wanted });
      return true;
    };
    const known: Record<string, Step | undefined> = { register, read: select, write };
    const [third = ''] = /^3\. .*/m.exec(read('docs/TRANSACTIONS.md')) ?? [];
    const steps = third.split(/\W/).flatMap((word) => known[word] ?? []);
    const holders = [1, 2].map((token) => ({
      parameters: { $sku: 'a', $token: token },
      wanted: token * 3,
    }));

    expect(steps.length).toBeGreaterThan(1);
    expect(wrongOutcomes(steps, holders)).toEqual([]);
  });

  it('of the safety page lets a holder write twice, as one that joins its own lock does', () => {
    const steps = updatesOf('docs/SAFETY.md');
    const row: Row = { sku: 'a', quantity: 10, fence: 0 };
    const holder = { parameters: { $sku: 'a', $token: 1, $quantity: 7 }, wanted: 3 };

    const reported = [...steps, ...steps].map((step) => step(row, holder));

    expect(reported).toEqual([true, true, true, true]);
  });
});

interface Row {
  readonly sku: string;
  readonly quantity: number;
  readonly fence: number;
}

interface Holder {
  readonly parameters: Record<string, unknown>;
  /** How many pieces it takes. */
  readonly wanted: number;
}

/** Tells whether the statement reported a row: a holder goes on only then. */
type Step = (row: Row, holder: Holder) => boolean;

/** The orders of the holders' steps after which the stock is not what was there, less what was sold. */
function wrongOutcomes(steps: readonly Step[], holders: readonly Holder[]): string[] {
  const [first, second] = holders.map((_, index) => steps.map(() => index));
  const orders = interleavings(first ?? [], second ?? []);
  expect(orders.length).toBeGreaterThan(1);
  return orders.flatMap((order) => {
    const row: Row = { sku: 'a', quantity: 10, fence: 0 };
    const done = holders.map(() => 0);
    for (const index of order) {
      const [present, by] = [steps[done[index] ?? 0], holders[index]];
      const isReported = present !== undefined && by !== undefined && present(row, by);
      done[index] = isReported ? (done[index] ?? 0) + 1 : NaN;
    }
    const sellers = holders.filter((_, index) => done[index] === steps.length);
    const sold = sellers.reduce((sum, { wanted }) => sum + wanted, 0);
    // Somebody is always served: the last holder, if nobody else.
    const isRight = row.quantity === 10 - sold && sold > 0 && sold <= 10;
    return isRight ? [] : [`${order.join()}: ${row.quantity}`];
  });
}

function interleavings<T>(left: readonly T[], right: readonly T[]): T[][] {
  const [[nextLeft, ...restLeft], [nextRight, ...restRight]] = [left, right];
  if (nextLeft === undefined || nextRight === undefined) return [[...left, ...right]];
  return [
    ...interleavings(restLeft, right).map((rest) => [nextLeft, ...rest]),
    ...interleavings(left, restRight).map((rest) => [nextRight, ...rest]),
  ];
}

function typeErrors(snippets: readonly { file: string; code: string }[]): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (file) =>
    ts.sys.readFile(file),
  );
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  // Seen by the compiler alone, in one program: the libraries are read once.
  const files = new Map(snippets.map(({ file, code }) => [join(root, file), code]));
  const host = ts.createCompilerHost({ ...options, noEmit: true });
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (file) => files.has(file) || fileExists.call(host, file);
  host.readFile = (file) => files.get(file) ?? readFile.call(host, file);
  host.getSourceFile = (file, language) =>
    files.has(file)
      ? ts.createSourceFile(file, files.get(file) ?? '', language, true)
      : getSourceFile.call(host, file, language);
  const checked = { ...options, noEmit: true, noUnusedLocals: false, noUnusedParameters: false };
  const program = ts.createProgram([...files.keys()], checked, host);
  return [...files.keys()]
    .flatMap((file) => ts.getPreEmitDiagnostics(program, program.getSourceFile(file)))
    .map(({ file, messageText }) => {
      const text = ts.flattenDiagnosticMessageText(messageText, '\n');
      return `${file?.fileName.slice(root.length + 1) ?? ''}: ${text}`;
    });
}

// A block without imports is one of a test, and goes without those of its file.
function completed(code: string): string {
  if (code.includes('import ')) return code;
  return `
    import { Test } from '@nestjs/testing';
    import { MemoryNode, RedlockModule } from 'nestjs-locked';
    class InventoryModule {}
    ${code}`;
}
