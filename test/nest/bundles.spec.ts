// What docs/CONTEXTS.md says of bundles, on bundles.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { build, type BuildOptions } from 'esbuild';

const root = join(import.meta.dirname, '../..');

describe('a bundled microservice whose lock is taken', () => {
  let folder: string;

  beforeAll(async () => {
    // In here, so that what is outside the bundles is found.
    folder = mkdtempSync(join(root, 'node_modules/.bundles-'));
    writeFileSync(join(folder, 'main.ts'), program);
    await bundle(library, 'library.mjs', { packages: 'external' });
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('answers so, where Nest is outside the bundle', async () => {
    const said = await run({ external: ['@nestjs/*'], alias: { 'nestjs-locked': library } });

    expect(said).toContain('"LOCK_TAKEN"');
  });

  it('answers with an internal error, where Nest is in the bundle', async () => {
    const said = await run({ external: optional, alias: { 'nestjs-locked': library } });

    expect(said).toContain('"Internal server error"');
    expect(said).not.toContain('"LOCK_TAKEN"');
  });

  it('does not start, and names ModulesContainer, where Nest is in it and we are not', async () => {
    const outside = join(folder, 'library.mjs');
    const said = await run({
      external: [...optional, outside],
      alias: { 'nestjs-locked': outside },
    });

    expect(said).toContain('ModulesContainer');
    expect(said).not.toContain('Internal server error');
  });

  /** What the program says, as a bundle. */
  async function run(options: BuildOptions): Promise<string> {
    await bundle(join(folder, 'main.ts'), 'main.mjs', options);
    const child = spawnSync(process.execPath, [join(folder, 'main.mjs')], { timeout: 30_000 });
    return `${String(child.stdout)}${String(child.stderr)}`;
  }

  async function bundle(entry: string, outfile: string, options: BuildOptions): Promise<void> {
    await build({
      ...{ entryPoints: [entry], outfile: join(folder, outfile), bundle: true, banner },
      ...{ platform: 'node', format: 'esm', logLevel: 'silent', tsconfig },
      ...options,
    });
  }
});

const library = join(root, 'lib/index.ts');
const tsconfig = join(root, 'tsconfig.json');

// What CommonJS packages require, in a bundle that is an ES module.
const banner = {
  js:
    "import { createRequire as makeRequire } from 'node:module';" +
    'const require = makeRequire(import.meta.url);',
};

/** What Nest can do without. */
const optional = [
  ...['class-*', 'kafkajs', 'mqtt', 'nats', '@nats-io/*', 'amqp*', '@grpc/*'],
  '@nestjs/platform-socket.io',
];

const program = `
  import 'reflect-metadata';
  import { Controller, Module } from '@nestjs/common';
  import { NestFactory } from '@nestjs/core';
  import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
  import { Locked, RedlockModule } from 'nestjs-locked';
  import { lastValueFrom } from 'rxjs';

  @Controller()
  class Orders {
    @MessagePattern('pay')
    @Locked('order', { wait: 0 })
    async pay() {
      return lastValueFrom(client.send('pay', {})).catch((error) => JSON.stringify(error));
    }
  }

  @Module({ imports: [RedlockModule.forRoot()], controllers: [Orders] })
  class Root {}

  const host = '127.0.0.1';
  const transport = Transport.TCP;
  const app = await NestFactory.createMicroservice(Root, { transport, options: { host, port: 0 } });
  await app.listen();
  const { port } = app.unwrap().address();
  const client = ClientProxyFactory.create({ transport, options: { host, port } });
  console.log(await lastValueFrom(client.send('pay', {})));
  process.exit(0);
`;
