// Proves what package.json promises: packs the package, installs it beside each Nest and ioredis
// that it names, type-checks test/matrix in both module formats against it, and runs that under
// each Node, as a program and under jest and vitest. Then test/nest/contexts and test/terminus on
// Nest 11: the repository's own tests run on the newest.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import ts from 'typescript';

import { root, run } from './command.mjs';
import { install, pack } from './packed-project.mjs';

// 36 combinations of the first four columns, 108 with the runners. Nine runs meet every pair of
// values, which is where they fail: `checkPairs` holds the table to that.
const COLUMNS = ['nest', 'ioredis', 'node', 'format', 'runner'];
const RUNS = [
  [11, 5, 20, 'cjs', 'program'],
  [12, 6, 20, 'esm', 'jest'],
  [12, 5, 20, 'cjs', 'vitest'],
  [12, 6, 22, 'cjs', 'program'],
  [11, 5, 22, 'cjs', 'jest'],
  [11, 6, 22, 'esm', 'vitest'],
  [12, 5, 24, 'esm', 'program'],
  [11, 6, 24, 'cjs', 'jest'],
  [11, 5, 24, 'esm', 'vitest'],
];

// Further packages that these tests need, of the Nest that the repository does not use.
const OWN_TESTS = { nest: 11, ioredis: 6 };
const OWN_TEST_PACKAGES = [
  ...['testing', 'platform-express', 'platform-fastify', 'platform-socket.io'],
  ...['microservices', 'websockets', 'bullmq', 'cqrs', 'terminus'],
]
  .map((name) => `@nestjs/${name}@11`)
  .concat('@nestjs/schedule@6', '@nestjs/event-emitter@3', '@nestjs/graphql@13')
  .concat('@nestjs/apollo@13', '@apollo/server@5', '@as-integrations/express5@1', 'graphql@16')
  .concat('bullmq@5', 'socket.io-client@4');

const startedAt = Date.now();
checkPairs();
const { folder, packed } = await pack();
const pairs = [11, 12].flatMap((nest) => [5, 6].map((ioredis) => ({ nest, ioredis })));
await inPairs(pairs, prepare);
const redis = await startRedis();
try {
  const runs = RUNS.map((cell) => () => runCell(cell, redis.url));
  await inPairs([runOwnTests, ...runs], (start) => start());
} finally {
  await redis.stop();
}

async function prepare({ nest, ioredis }) {
  const place = placeOf(nest, ioredis);
  const packages = [`@nestjs/common@${nest}`, `@nestjs/core@${nest}`, `ioredis@${ioredis}`];
  const peers = [...packages, 'reflect-metadata@0.2', 'rxjs@7', '@types/node@20'];
  const hasOwnTests = nest === OWN_TESTS.nest && ioredis === OWN_TESTS.ioredis;
  for (const [format, type] of Object.entries({ esm: 'module', cjs: 'commonjs' })) {
    mkdirSync(join(place, format), { recursive: true });
    writeFileSync(join(place, format, 'package.json'), JSON.stringify({ type }));
    cpSync(join(root, 'test/matrix'), join(place, format), { recursive: true });
  }
  if (hasOwnTests) copyOwnTests(join(place, 'own'));
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify(compilation(hasOwnTests)));
  await install(place, packed, [...peers, ...(hasOwnTests ? OWN_TEST_PACKAGES : [])]);
  // The packages of these tests are no run-time dependencies of ours.
  if (!hasOwnTests) await audit(place);
  await run(process.execPath, [tool('typescript', 'bin/tsc'), '-p', '.'], { cwd: place });
  tell(`Nest ${nest}, ioredis ${ioredis}: installed and type-checked as ESM and as CommonJS`);
}

/** One run of tsc: each folder's package.json says what its files are. */
function compilation(hasOwnTests) {
  const paths = { '@jest/globals': [tool('@jest/globals', 'build/index.d.ts')] };
  return {
    compilerOptions: {
      ...{ target: 'es2022', lib: ['es2022', 'esnext.disposable'], types: ['node'] },
      ...{ module: 'nodenext', strict: true, skipLibCheck: hasOwnTests },
      ...{ experimentalDecorators: true, emitDecoratorMetadata: true },
      ...(hasOwnTests ? { paths } : {}),
    },
    include: ['esm', 'cjs', 'own'],
  };
}

function copyOwnTests(place) {
  mkdirSync(place);
  writeFileSync(join(place, 'package.json'), JSON.stringify({ type: 'module' }));
  const support = ['after-test.ts', 'redis-servers.ts'].map((file) => `test/support/${file}`);
  for (const path of ['test/nest/contexts', 'test/nest/support', 'test/terminus', ...support]) {
    cpSync(join(root, path), join(place, path), { recursive: true });
  }
}

async function runCell([nest, ioredis, node, format, runner], url) {
  const place = join(placeOf(nest, ioredis), format);
  const env = { ...process.env, REDIS_URL: url };
  const command = ['-y', '-p', `node@${node}`, 'node', ...argumentsOf(runner, format)];
  await run('npx', command, { cwd: place, env, timeout: 60_000 });
  tell(`Nest ${nest}, ioredis ${ioredis}, Node ${node}, ${format}, ${runner}: passed`);
}

function argumentsOf(runner, format) {
  switch (runner) {
    case 'jest':
      return [...jest(format === 'esm'), '--testMatch', '**/*.test.js'];
    case 'vitest':
      return [
        tool('vitest', 'vitest.mjs'),
        'run',
        '--globals',
        '--root',
        '.',
        'application.test.js',
      ];
    default:
      return ['main.js'];
  }
}

async function runOwnTests() {
  const cwd = join(placeOf(OWN_TESTS.nest, OWN_TESTS.ioredis), 'own');
  const command = [...jest(true), '--testTimeout', '20000', '--testMatch', '**/*.spec.js'];
  await run(process.execPath, command, { cwd, timeout: 180_000 });
  tell(`Nest ${OWN_TESTS.nest}: test/nest/contexts and test/terminus passed`);
}

function jest(isEsm) {
  const flags = isEsm ? ['--experimental-vm-modules'] : [];
  const config = JSON.stringify({ testEnvironment: 'node', transform: {} });
  return [...flags, tool('jest', 'bin/jest.js'), '--rootDir', '.', '--config', config];
}

/** A file of a development dependency of the project. */
function tool(name, file) {
  return join(root, 'node_modules', name, file);
}

function placeOf(nest, ioredis) {
  return join(folder, `nest-${nest}-ioredis-${ioredis}`);
}

/** The tests' own way to start a server, which is TypeScript. */
async function startRedis() {
  const source = readFileSync(join(root, 'test/support/redis-servers.ts'), 'utf8');
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const place = join(folder, 'redis-servers.mjs');
  writeFileSync(place, ts.transpileModule(source, { compilerOptions }).outputText);
  const { startRedisServer } = await import(pathToFileURL(place).href);
  return startRedisServer();
}

/** @throws Error naming a pair of values that no run meets. */
function checkPairs() {
  for (const [a, one] of COLUMNS.entries()) {
    for (const [b, other] of COLUMNS.entries()) {
      for (const x of new Set(RUNS.map((cells) => cells[a]))) {
        for (const y of new Set(RUNS.map((cells) => cells[b]))) {
          if (a >= b || RUNS.some((cells) => cells[a] === x && cells[b] === y)) continue;
          throw new Error(`No run has ${one} ${x} and ${other} ${y}`);
        }
      }
    }
  }
}

/** Two at a time: an install waits for the registry, a compilation for a core. */
async function inPairs(items, work) {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}

/** Only an answer of the registry counts: not every registry has the end point. */
async function audit(cwd) {
  const child = spawn('npm', ['audit', '--json'], { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
  const output = [];
  child.stdout.on('data', (data) => output.push(data));
  await once(child, 'close');
  const { metadata, message = 'no answer' } = JSON.parse(output.join('') || '{}');
  if (metadata === undefined) tell(`not audited: ${message}`);
  else if (metadata.vulnerabilities.total > 0) throw new Error(`npm audit:\n${output.join('')}`);
}

function tell(what) {
  console.log(`[${Math.round((Date.now() - startedAt) / 1_000)} s] ${what}`);
}
