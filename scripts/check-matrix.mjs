// Proves what package.json promises. Packs the package, installs it beside each Nest and ioredis
// that package.json names, the two oldest with the least versions of all peers that it allows, and
// type-checks test/matrix, which uses every entry point, against it in both module formats. Runs
// test/matrix under each Node, from the least that package.json allows: as a program in all
// combinations, and under jest and vitest. Then runs test/nest/contexts and test/terminus on Nest
// 11, as the repository's own tests run on the newest. Last checks what the compiler says about
// `@Locked`: the oldest TypeScript that package.json names, and the newest, which the repository's
// own tools cannot use yet.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, run } from './command.mjs';
import { install, pack } from './packed-project.mjs';
import { startRedisServers } from './redis-servers.mjs';

const { engines, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const VALUES = {
  nest: majorsOf('@nestjs/core'),
  ioredis: majorsOf('ioredis'),
  node: [20, 22, 24, 26],
  format: ['esm', 'cjs'],
  runner: ['jest', 'vitest'],
};

// Test runners are slow: of 64 combinations only eight run. They meet every pair of values, which
// is where combinations fail; `checkPairs` makes sure that they do. Nest 12 as CommonJS under jest
// is met on Node 24 because it needs that one: docs/TESTING.md.
const TEST_RUNS = [
  [11, 5, 20, 'cjs', 'jest'],
  [12, 6, 20, 'esm', 'vitest'],
  [12, 5, 22, 'esm', 'jest'],
  [11, 6, 22, 'cjs', 'vitest'],
  [12, 6, 24, 'cjs', 'jest'],
  [11, 5, 24, 'esm', 'vitest'],
  [12, 6, 26, 'esm', 'jest'],
  [11, 5, 26, 'cjs', 'vitest'],
];

// Beside these pairs: on Node 20 and 22, tests in this pool run in contexts without Symbol.dispose.
const VM_RUN = [11, 6, 20, 'esm', 'vitest-vm'];

const USED_PEERS = [
  ...['@nestjs/common', '@nestjs/core', '@nestjs/terminus', 'ioredis'],
  ...['@opentelemetry/api', 'reflect-metadata', 'rxjs'],
];

// Further packages that these tests need, for the Nest that the repository does not use.
const OWN_TESTS = { nest: 11, ioredis: 6 };
const OWN_TEST_PACKAGES = [
  ...['testing', 'platform-express', 'platform-fastify', 'platform-socket.io', 'platform-ws'],
  ...['microservices', 'websockets', 'bullmq', 'cqrs'],
]
  .map((name) => `@nestjs/${name}@11`)
  .concat('@nestjs/schedule@6', '@nestjs/event-emitter@3', '@nestjs/graphql@13')
  .concat('@nestjs/apollo@13', '@apollo/server@5', '@as-integrations/express5@1', 'graphql@16')
  .concat('bullmq@5', 'socket.io-client@4', 'ws@8', '@types/ws@8');

// The oldest infers differently from the newest, and its libraries declare generators differently.
const TYPESCRIPTS = { 'typescript-oldest': '5.0', 'typescript-newest': '7' };
const TYPES_SPEC = 'test/nest/locked.types.spec.ts';

// In ms, for what hangs: on a busy machine a run takes several times as long as by itself.
const PATIENCE = ['--testTimeout', '90000'];
const RUN_TIMEOUT = 300_000;

const startedAt = Date.now();
checkPairs();
const { nest, ioredis, node, format } = VALUES;
const { folder, packed } = await pack();
await inPairs(combinations(nest, ioredis), prepare);
const programOf = new Map();
for (const version of node) programOf.set(version, await findNode(version));
const [redis] = await startRedisServers(1);
try {
  const programs = combinations(nest, ioredis, node, format, ['program']);
  const tests = [...TEST_RUNS, VM_RUN];
  const runs = [...tests, ...programs].map((cell) => () => runCell(cell, redis.url));
  await inPairs([runOwnTests, ...runs], (start) => start());
  tell(`${programs.length} programs and ${tests.length} test runs passed`);
} finally {
  await redis.stop();
}

async function prepare([nest, ioredis]) {
  const place = placeOf(nest, ioredis);
  const hasOwnTests = nest === OWN_TESTS.nest && ioredis === OWN_TESTS.ioredis;
  for (const [format, type] of Object.entries({ esm: 'module', cjs: 'commonjs' })) {
    mkdirSync(join(place, format), { recursive: true });
    writeFileSync(join(place, format, 'package.json'), JSON.stringify({ type }));
    cpSync(join(root, 'test/matrix'), join(place, format), { recursive: true });
  }
  if (hasOwnTests) copyOwnTests(join(place, 'own'));
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify(compilation(hasOwnTests)));
  const compilers = Object.entries(TYPESCRIPTS).map(
    ([name, version]) => `${name}@npm:typescript@${version}`,
  );
  const ownPackages = hasOwnTests ? [...OWN_TEST_PACKAGES, ...compilers] : [];
  await install(place, packed, [...peersOf(nest, ioredis), '@types/node@20', ...ownPackages]);
  // The packages of these tests are no run-time dependencies of ours, and the least versions no
  // advice.
  if (!hasOwnTests && !isOldest(nest, ioredis)) await audit(place);
  await run(process.execPath, [tool('typescript', 'bin/tsc'), '-p', '.'], { cwd: place });
  if (hasOwnTests) await checkOtherTypeScripts(place);
  tell(`Nest ${nest}, ioredis ${ioredis}: installed and type-checked as ESM and as CommonJS`);
}

function isOldest(nest, ioredis) {
  return nest === VALUES.nest[0] && ioredis === VALUES.ioredis[0];
}

function peersOf(nest, ioredis) {
  return USED_PEERS.map((name) => {
    const range = peerDependencies[name];
    if (isOldest(nest, ioredis)) return `${name}@${leastOf(range)}`;
    if (name.startsWith('@nestjs/')) return `${name}@${nest}`;
    return `${name}@${name === 'ioredis' ? ioredis : range}`;
  });
}

/** The major versions that package.json allows of a peer. */
function majorsOf(peer) {
  return [...peerDependencies[peer].matchAll(/\^(\d+)/g)].map(([, major]) => Number(major));
}

/** The least version that a range allows, which it begins with. */
function leastOf(range) {
  return /[\d.]+/.exec(range)[0];
}

async function checkOtherTypeScripts(cwd) {
  const compilerOptions = { ...compilation(true).compilerOptions, lib: ['es2022'], noEmit: true };
  const config = { compilerOptions, files: [join('own', TYPES_SPEC)] };
  writeFileSync(join(cwd, 'tsconfig.types.json'), JSON.stringify(config));
  for (const name of Object.keys(TYPESCRIPTS)) {
    const compiler = join('node_modules', name, 'bin/tsc');
    await run(process.execPath, [compiler, '-p', 'tsconfig.types.json'], { cwd });
  }
  const newest = 'node_modules/typescript-newest/bin/tsc';
  await run(process.execPath, [newest, '-p', '.', '--noEmit'], { cwd });
}

/** One run of tsc: each folder's package.json gives the module format of its files. */
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
  const support = ['after-test.ts', 'eventually.ts', 'redis-servers.ts'];
  const tests = ['test/nest/contexts', 'test/nest/support', 'test/terminus', TYPES_SPEC];
  for (const path of [...tests, ...support.map((file) => `test/support/${file}`)]) {
    cpSync(join(root, path), join(place, path), { recursive: true });
  }
}

async function runCell([nest, ioredis, node, format, runner], url) {
  const cwd = join(placeOf(nest, ioredis), format);
  const env = { ...process.env, REDIS_URL: url };
  const command = argumentsOf(runner, nest, format);
  await run(programOf.get(node), command, { cwd, env, timeout: RUN_TIMEOUT });
  tell(`Nest ${nest}, ioredis ${ioredis}, Node ${node}, ${format}, ${runner}: passed`);
}

function argumentsOf(runner, nest, format) {
  switch (runner) {
    case 'jest':
      // Nest 12 is ESM only: jest requires that as it imports it.
      return [...jest(format === 'esm' || nest === 12), ...PATIENCE, '--testMatch', '**/*.test.js'];
    case 'vitest':
      return vitest();
    case 'vitest-vm':
      return [...vitest(), '--pool', 'vmThreads'];
    default:
      return ['main.js'];
  }
}

async function runOwnTests() {
  const cwd = join(placeOf(OWN_TESTS.nest, OWN_TESTS.ioredis), 'own');
  const command = [...jest(true), ...PATIENCE, '--testMatch', '**/*.spec.js'];
  await run(process.execPath, command, { cwd, timeout: RUN_TIMEOUT });
  tell(`Nest ${OWN_TESTS.nest}: test/nest/contexts and test/terminus passed`);
}

function jest(loadsModules) {
  const flags = loadsModules ? ['--experimental-vm-modules'] : [];
  const config = JSON.stringify({ testEnvironment: 'node', transform: {} });
  return [...flags, tool('jest', 'bin/jest.js'), '--rootDir', '.', '--config', config];
}

function vitest() {
  const options = ['run', '--globals', ...PATIENCE, '--root', '.', 'application.test.js'];
  return [tool('vitest', 'vitest.mjs'), ...options];
}

/** A file of a development dependency of the project. */
function tool(name, file) {
  return join(root, 'node_modules', name, file);
}

function placeOf(nest, ioredis) {
  return join(folder, `nest-${nest}-ioredis-${ioredis}`);
}

/** @throws Error naming a pair of values that no test run meets. */
function checkPairs() {
  const columns = Object.entries(VALUES);
  for (const [a, [one, ones]] of columns.entries()) {
    for (const [b, [other, others]] of columns.entries()) {
      for (const [x, y] of combinations(ones, others)) {
        if (a >= b || TEST_RUNS.some((cells) => cells[a] === x && cells[b] === y)) continue;
        throw new Error(`No test run has ${one} ${x} and ${other} ${y}`);
      }
    }
  }
}

/** All combinations of one value from each list. */
function combinations(...lists) {
  const extend = (rows, list) => rows.flatMap((row) => list.map((value) => [...row, value]));
  return lists.reduce(extend, [[]]);
}

/** The path of a Node that npx brings: the least, or the newest of a later major version. */
async function findNode(version) {
  const wanted = version === VALUES.node[0] ? leastOf(engines.node) : version;
  const print = '`${process.version} ${process.execPath}`';
  // Its package installs the program by a script; without it npx starts this machine's Node.
  const ask = ['-y', '--ignore-scripts=false', '-p', `node@${wanted}`, 'node', '-p', print];
  const [, major, path] = /^v(\d+)\S* (.+)$/m.exec(await run('npx', ask)) ?? [];
  if (Number(major) === version) return path;
  throw new Error(`Expected npx to bring Node ${version}, got ${major} at ${path}`);
}

/** Runs two at a time: an install waits for the registry, a compilation for a core. */
async function inPairs(items, work) {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}

/** Only a real answer counts, as not every registry has the endpoint. */
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
