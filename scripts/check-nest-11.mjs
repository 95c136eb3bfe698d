// Proves the peer range: packs the package, installs it beside Nest 11 and ioredis 5 in a folder of
// its own, and there takes a lock by @Locked in an application context, in both module formats.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { run, withPackedProject } from './packed-project.mjs';

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

withPackedProject(PEERS, (folder) => {
  writeFileSync(join(folder, 'application.cjs'), APPLICATION);
  for (const [name, source] of Object.entries(ENTRIES)) {
    writeFileSync(join(folder, name), source);
    run(process.execPath, [name], { cwd: folder, timeout: 30_000 });
    console.log(`Nest 11 and ioredis 5, ${name}: locked, released, ended by itself.`);
  }
});
