// What the documents show has to compile, and what they tell an operator to allow has to be enough.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';

import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import ts from 'typescript';

import { resolveOptions } from '../lib/core/options.js';
import { Redlock } from '../lib/core/redlock.js';
import { createNodes } from '../lib/nodes/node-inputs.js';
import { startRedisServer, type RedisServer } from './support/redis-servers.js';

const root = join(import.meta.dirname, '..');
const guides = readdirSync(join(root, 'docs')).filter((file) => file.endsWith('.md'));
const documents = ['README.md', 'SECURITY.md', ...guides.map((file) => `docs/${file}`)];
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

describe('the code in the documents', () => {
  const snippets = documents.flatMap((file) =>
    [...read(file).matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code], index) => ({
      file: `${file.replace(/\W/g, '-')}-${index + 1}.ts`,
      code: completed(code ?? ''),
    })),
  );

  it('compiles, each block as a file of its own', () => {
    expect(snippets.length).toBeGreaterThan(10);
    expect(typeErrors(snippets)).toEqual([]);
  }, 60_000);

  it('is marked as TypeScript where it is TypeScript, so that it is compiled', () => {
    const marks = documents.flatMap((file) =>
      [...read(file).matchAll(/^ *```(\w*)\n[\s\S]*?^ *```$/gm)].map(([, mark]) => mark),
    );

    expect(marks.filter((mark) => /^(tsx|jsx?|(java|type)script)$/.test(mark ?? ''))).toEqual([]);
  });
});

describe('the ACL line for a Redis user', () => {
  const rules = ['README.md', 'docs/OPERATIONS.md'].map(
    (file) => /ACL (SETUSER locks .*)/.exec(read(file))?.[1] ?? '',
  );
  const words = rules[0]?.split(' ') ?? [];
  const rights = words.filter((word) => word.startsWith('+'));

  it('is the same in all documents', () => {
    expect(rights.length).toBeGreaterThan(5);
    expect(new Set(rules).size).toBe(1);
  });

  it('is enough: nothing is denied, with waiting and extending', async () => {
    expect(await usedBy(words)).toEqual({ denied: [], failure: undefined });
  });

  it.each(rights)('has nothing too much: without %s something is denied', async (right) => {
    const { denied } = await usedBy(words.filter((word) => word !== right));

    expect(denied).not.toEqual([]);
  });

  it('is enough for another database with select, and not without', async () => {
    const without = await usedBy(words, 1);

    expect(without.denied).toEqual(['select']);
    expect(await usedBy([...words, '+select'], 1)).toEqual({ denied: [], failure: undefined });
  });

  it.each([
    [
      'publishing and subscribing: locks are waited for all the same',
      /^&|publish|pubsub|subscribe/,
    ],
    ['mget: a batch takes another way', /^\+?mget$/],
    ['info: the certificate of a node is enough', /^\+?info$/],
  ])('may go without %s', async (_what, isLeftOut) => {
    const { denied, failure } = await usedBy(words.filter((word) => !isLeftOut.test(word)));

    expect(failure).toBeUndefined();
    expect(denied.length).toBeGreaterThan(0);
    expect(denied.filter((command) => !isLeftOut.test(command))).toEqual([]);
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

  it('of the safety page, with a read in between, is as sound in every order of the steps', () => {
    const [register, write] = updatesOf('docs/SAFETY.md');
    const select: Step = ({ quantity }, { parameters, wanted }) => {
      Object.assign(parameters, { $quantity: quantity - wanted });
      return true;
    };
    const steps = [register, select, write].filter((step) => step !== undefined);
    const holders = [1, 2].map((token) => ({
      parameters: { $sku: 'a', $token: token },
      wanted: token * 3,
    }));

    expect(steps).toHaveLength(3);
    expect(wrongOutcomes(steps, holders)).toEqual([]);
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

/** Uses all of the library as a user with these rights: what was denied, and what it came to. */
async function usedBy(
  words: readonly string[],
  database = 0,
): Promise<{ denied: string[]; failure: unknown }> {
  const server = await startRedisServer();
  const admin = new Redis(server.url);
  await admin.call('ACL', [...words]);
  // There is one where a right is missing that it cannot go without.
  const failure = await use(server, admin, database).catch((error: unknown) => error);
  const log = (await admin.call('ACL', ['LOG'])) as string[][];
  admin.disconnect();
  await server.stop();
  const denied = log.map((entry) => entry[entry.indexOf('object') + 1] ?? '');
  // Servers before Redis 7.2 refuse a rule that names it, and those from then on do without.
  return { denied: denied.filter((command) => command !== 'client|setinfo'), failure };
}

async function use(server: RedisServer, admin: Redis, database: number): Promise<void> {
  const url = `${server.url.replace('redis://', 'redis://locks:secret@')}/${database}`;
  // Quarantined for about the ttlMax; the node timeout is one for a machine that is busy.
  const options = { keyPrefix: 'app:', quarantine: true, ttlMax: 1_000, nodeTimeout: 250 };
  const sets = [1, 2].map(() => createNodes([url], resolveOptions(options, 1)));
  await Promise.all(sets.map((nodes) => nodes.whenReady(5_000)));
  const [holder, waiter] = sets.map((nodes) => new Redlock(nodes.nodes, options));
  try {
    const lock = await holder?.acquire('r', 900, { wait: 3_000 });
    // Of one tick, which is one call.
    const pair = ['a', 'b'].map(async (resource) => {
      await (await holder?.acquire(resource, 900))?.release();
    });
    await Promise.all(pair);
    // By more than it was given, so that there is something to write.
    await lock?.extend(1_000);
    const waiting = waiter?.acquire('r', 1_000, { wait: 3_000 });
    expect((await holder?.inspect('r'))?.state).toBe('held');
    await subscribed(admin);
    await lock?.release();
    await (await waiting)?.release();
    expect((await holder?.inspect('r'))?.state).toBe('free');
  } finally {
    await Promise.all([holder?.close(), waiter?.close()]);
    await Promise.all(sets.map((nodes) => nodes.close()));
  }
}

/** Resolves when the waiter has subscribed; with a user who may not, while the lock is held. */
async function subscribed(admin: Redis): Promise<void> {
  for (let look = 0; look < 70; look += 1) {
    const channels = (await admin.call('PUBSUB', ['CHANNELS', 'app:redlock:wake:*'])) as string[];
    if (channels.length > 0) return;
    await setTimeout(10);
  }
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
