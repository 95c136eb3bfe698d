// The README's first example, as written there, in an empty project with the package installed as
// it is packed: compiled with its types, and started.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, run } from './command.mjs';
import { install, pack } from './packed-project.mjs';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const needed = ['@nestjs/common', '@nestjs/core', '@nestjs/schedule', 'ioredis', 'rxjs'];
const packages = [...needed, 'reflect-metadata', 'typescript', '@types/node'].map(
  (name) => `${name}@${manifest.devDependencies[name]}`,
);

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const [module, service] = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);

// Nodes that are not there: locks of this process do for seeing the example run.
const main = `
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedlockModule } from 'nestjs-locked';
import { AppModule } from './app.module.js';
import { InventoryService } from './inventory.service.js';

@Module({ imports: [RedlockModule.forRoot()], providers: [InventoryService] })
class Main {}

console.log(AppModule.name);
const app = await NestFactory.createApplicationContext(Main, { logger: ['error'] });
const inventory = app.get(InventoryService);
await Promise.all([inventory.reserve('apple', 1), inventory.reserve('apple', 2), inventory.report()]);
await app.close();
`;

const { folder: cwd, packed } = await pack();
await install(cwd, packed, packages);
const files = { 'app.module': module, 'inventory.service': service, main };
for (const [name, code] of Object.entries(files)) writeFileSync(join(cwd, `${name}.ts`), code);
writeFileSync(join(cwd, 'package.json'), '{ "private": true, "type": "module" }\n');
const options = ['--module', 'nodenext', '--target', 'es2022', '--strict', '--types', 'node'];
const decorators = ['--experimentalDecorators', '--emitDecoratorMetadata', '--skipLibCheck'];
const compiler = ['node_modules/typescript/bin/tsc', ...options, ...decorators];
await run(process.execPath, [...compiler, 'main.ts'], { cwd });
await run(process.execPath, ['main.js'], { cwd, timeout: 30_000 });
console.log("The README's first example: installed, compiled, run, ended by itself.");
