// Runs the README's first example, unchanged except for the addresses of its nodes, in an empty
// project with the packed package: compiles it with its types, and starts it over three servers.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, run } from './command.mjs';
import { install, pack } from './packed-project.mjs';
import { startRedisServers } from './redis-servers.mjs';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const needed = ['@nestjs/common', '@nestjs/core', '@nestjs/schedule', 'ioredis', 'rxjs'];
const packages = [...needed, 'reflect-metadata', 'typescript', '@types/node'].map(
  (name) => `${name}@${manifest.devDependencies[name]}`,
);

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const [module, service] = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);

const main = `
import 'reflect-metadata';
import { deepEqual, equal, ok } from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { RedlockService } from 'nestjs-locked';
import { AppModule } from './app.module.js';
import { InventoryService } from './inventory.service.js';

@Module({ imports: [AppModule], providers: [InventoryService] })
class Main {}

// Nodes that were first seen a minute ago: brand-new ones grant nothing for about the ttlMax.
for (const url of process.argv.slice(2)) {
  const client = new Redis(url);
  const [, replid] = /master_replid:(\\w+)/.exec(await client.info('replication')) ?? [];
  await client.set('redlock:node', \`\${replid}:\${(Date.now() - 60_000) * 1_000}\`);
  await client.quit();
}

const start = () => NestFactory.createApplicationContext(Main, { logger: ['error', 'warn'] });
const [replica, other] = await Promise.all([start(), start()]);
const inventory = replica.get(InventoryService);
await Promise.all([inventory.reserve('apple', 1), inventory.transfer('a', 'b', 1), inventory.report()]);

const held = await other.get(RedlockService).acquire('sku:apple');
let isReserved = false;
const reservation = inventory.reserve('apple', 2).then(() => { isReserved = true; });
await setTimeout(500);
equal(isReserved, false, 'reserve() ran while another replica held its resource');
const { nodes } = await replica.get(RedlockService).inspect('sku:apple');
// A majority is enough. A node that was busy serves first the connection that kept it so, and may
// be asked for this lock before it is told of the release before it.
const owners = nodes.map(({ ownerId }) => ownerId).filter((ownerId) => ownerId !== null);
deepEqual(new Set(owners), new Set([held.ownerId]));
ok(owners.length >= 2, 'fewer than two nodes hold the lock');
await held.release();
await reservation;
await Promise.all([replica.close(), other.close()]);
`;

const { folder: cwd, packed } = await pack();
await install(cwd, packed, packages);
const servers = await startRedisServers(3);
try {
  const urls = servers.map(({ url }) => url);
  const files = { 'app.module': over(urls, module), 'inventory.service': service, main };
  for (const [name, code] of Object.entries(files)) writeFileSync(join(cwd, `${name}.ts`), code);
  writeFileSync(join(cwd, 'package.json'), '{ "private": true, "type": "module" }\n');
  const options = ['--module', 'nodenext', '--target', 'es2022', '--strict', '--types', 'node'];
  const decorators = ['--experimentalDecorators', '--emitDecoratorMetadata', '--skipLibCheck'];
  const compiler = ['node_modules/typescript/bin/tsc', ...options, ...decorators];
  await run(process.execPath, [...compiler, 'main.ts'], { cwd });
  await run(process.execPath, ['main.js', ...urls], { cwd, timeout: 30_000 });
} finally {
  await Promise.all(servers.map((server) => server.stop()));
}
console.log("The README's first example: installed, compiled, run, excluded, ended by itself.");

/** The example with the addresses of these nodes in place of its own. */
function over(urls, code) {
  const [before, ...after] = code.split(/redis:\/\/\w+:\d+/);
  if (after.length === urls.length) return before + after.map((rest, n) => urls[n] + rest).join('');
  throw new Error(`Expected the README's first example to name ${urls.length} nodes:\n${code}`);
}
