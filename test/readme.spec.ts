// What README.md shows and states, held against the code.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import * as library from 'nestjs-locked';
import ts from 'typescript';

import { nodeTimeoutOf, resolveOptions } from '../lib/core/options.js';
import { Redlock } from '../lib/core/redlock.js';
import { createNodes } from '../lib/nodes/node-inputs.js';
import { startRedisServer } from './support/redis-servers.js';

const root = join(import.meta.dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

describe('the README', () => {
  it('shows code that compiles', () => {
    const snippets = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code ?? '');

    expect(snippets.length).toBeGreaterThan(3);
    expect(typeErrors(snippets)).toEqual([]);
  });

  it.each(optionRows())('states the default of %s as it is: %s', (option, stated) => {
    const { ttl, ttlMax, wait, retryDelay, driftFactor, stallTimeout, maxHold, shutdownTimeout } =
      resolveOptions({}, 3);
    const { fencing, keyPrefix } = resolveOptions({}, 3).world;
    const known = { ttl, ttlMax, wait, retryDelay, driftFactor, stallTimeout, maxHold };
    const actual = new Map<string, unknown>(
      Object.entries({ ...known, shutdownTimeout, fencing, keyPrefix }),
    );

    // Those that are no plain values have tests of their own below.
    if (actual.has(option)) expect(valueOf(stated)).toEqual(actual.get(option));
    else expect(DESCRIBED_IN_WORDS).toContain(option);
  });

  it('states the derived defaults as they are: node timeout, watchdog and quarantine', () => {
    const options = resolveOptions({}, 3);

    expect([500, 2_000, 30_000].map((ttl) => nodeTimeoutOf(options, ttl))).toEqual([50, 100, 500]);
    expect(nodeTimeoutOf(options, 100)).toBe(25);
    expect(options.watchdog).toEqual({ acquire: false, using: true });
    expect([1, 2, 3, 4].map((count) => resolveOptions({}, count).world.quarantine > 0)).toEqual([
      false,
      false,
      true,
      true,
    ]);
  });

  it('names rights that are enough for a Redis user', async () => {
    const [, rule = ''] = /ACL (SETUSER locks .*)/.exec(readme) ?? [];
    const server = await startRedisServer();
    const admin = new Redis(server.url);
    await admin.call('ACL', rule.split(' '));
    const url = server.url.replace('redis://', 'redis://locks:secret@');
    // Quarantined for about the ttlMax; the node timeout is one for a machine that is busy.
    const options = { keyPrefix: 'app:', quarantine: true, ttlMax: 1_000, nodeTimeout: 250 };
    const nodes = createNodes([url], resolveOptions(options, 1), {});
    await nodes.whenReady(5_000);
    const redlock = new Redlock(nodes.nodes, options);

    const lock = await redlock.acquire('r');
    await lock.extend();
    const held = await redlock.inspect('r');
    await lock.release();

    expect(held.state).toBe('held');
    expect((await redlock.inspect('r')).state).toBe('free');
    expect(nodes.nodes[0]?.status().findings.filter((text) => /denied|right/.test(text))).toEqual(
      [],
    );
    await redlock.close();
    await nodes.close();
    await admin.quit();
    await server.stop();
  });

  it('names every error and its code', () => {
    const errors = Object.entries(library).filter(([name]) => name.endsWith('Error'));
    const codes = errors.flatMap(([, error]) => ('code' in error ? [error.code] : []));

    expect(codes.length).toBe(6);
    for (const code of codes) expect(readme).toContain(`\`${code}\``);
  });
});

const DESCRIBED_IN_WORDS = [
  'nodeTimeout',
  'watchdog',
  'quarantine',
  'reentrant',
  'isGlobal',
  'interceptor',
  'httpStatus',
  'environment',
];

function optionRows(): [option: string, stated: string][] {
  const section = readme.slice(readme.indexOf('## Options'), readme.indexOf('One call takes'));
  const rows = [...section.matchAll(/^\| `(\w+)` \|(.*?)\|/gm)];
  const stated = rows.map(([, option, value]): [string, string] => [
    option ?? '',
    value?.trim() ?? '',
  ]);
  return stated.filter(([, value]) => /\w|'/.test(value));
}

function valueOf(stated: string): unknown {
  const literal = stated.replaceAll('`', '').replaceAll('_', '').replaceAll("'", '"');
  return JSON.parse(literal.replace(/(\w+):/g, '"$1":'));
}

// Each snippet is a file of its own beside lib/, seen by the compiler alone.
function typeErrors(snippets: readonly string[]): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (file) =>
    ts.sys.readFile(file),
  );
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const files = new Map(
    snippets.map((code, index) => [join(root, `snippet-${index}.ts`), completed(code)]),
  );
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
    .map((diagnostic) => ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n'));
}

// The last snippet goes without the imports of a test file.
function completed(code: string): string {
  if (code.includes('import ')) return code;
  return `
    import { Test } from '@nestjs/testing';
    import { MemoryNode, RedlockModule } from 'nestjs-locked';
    class InventoryModule {}
    ${code}`;
}
