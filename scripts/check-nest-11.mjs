// Proves the peer range: packs the package, installs it beside Nest 11 and ioredis 5 in a folder of
// its own, and there takes a lock by @Locked in an application context, in both module formats.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PEERS = [
  '@nestjs/common@11',
  '@nestjs/core@11',
  'ioredis@5',
  'reflect-metadata@0.2',
  'rxjs@7',
];

// Plain JavaScript: decorators are called as a compiler would call them.
const APPLICATION = `
const assert = require('node:assert/strict');

module.exports = async (common, core, locked) => {
  let inside = 0;
  class Work {
    async double(value) {
      inside += 1;
      assert.equal(inside, 1, 'two calls ran at once');
      assert.deepEqual([...locked.currentLock().resources], ['x']);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
      return value * 2;
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Work.prototype, 'double');
  const decorated = locked.Locked('x')(Work.prototype, 'double', descriptor) ?? descriptor;
  Object.defineProperty(Work.prototype, 'double', decorated);
  common.Injectable()(Work);
  class AppModule {}
  common.Module({ imports: [locked.RedlockModule.forRoot()], providers: [Work] })(AppModule);

  const options = { logger: ['error', 'warn'], abortOnError: false };
  const application = await core.NestFactory.createApplicationContext(AppModule, options);
  const work = application.get(Work);
  assert.deepEqual(await Promise.all([1, 2, 3].map((value) => work.double(value))), [2, 4, 6]);
  await application.close();
};
`;

const ENTRIES = {
  'require.cjs': `
require('reflect-metadata');
assertNest11(require('@nestjs/core/package.json').version);
require('./application.cjs')(
  require('@nestjs/common'),
  require('@nestjs/core'),
  require('nestjs-locked'),
);
function assertNest11(version) {
  if (!version.startsWith('11.')) throw new Error('Expected Nest 11, got ' + version);
}
`,
  'import.mjs': `
import 'reflect-metadata';
import * as common from '@nestjs/common';
import * as core from '@nestjs/core';
import * as locked from 'nestjs-locked';
import application from './application.cjs';
await application(common, core, locked);
`,
};

function run(command, args, options) {
  const result = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'inherit'], ...options });
  if (result.status !== 0) {
    process.stderr.write(result.stdout ?? '');
    // A program that has done its work and does not end is stopped by the timeout: a failure too.
    const how = result.error?.message ?? result.signal ?? `exit code ${result.status}`;
    throw new Error(`${command} ${args.join(' ')}: ${how}`);
  }
}

const project = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-nest-11-'));
try {
  run('npm', ['pack', '--loglevel=error', '--pack-destination', folder], { cwd: project });
  const [filename] = readdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  run(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', `./${filename}`, ...PEERS],
    { cwd: folder },
  );
  writeFileSync(join(folder, 'application.cjs'), APPLICATION);
  for (const [name, source] of Object.entries(ENTRIES)) {
    writeFileSync(join(folder, name), source);
    run(process.execPath, [name], { cwd: folder, timeout: 30_000 });
    console.log(`Nest 11 and ioredis 5, ${name}: locked, released, ended by itself.`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
