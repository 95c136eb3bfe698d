import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Module, UseGuards, type CanActivate } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { currentLock, fromContext, Locked, RedlockModule } from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { getJson } from './support/requests.js';

@Injectable()
class Inventory {
  @Locked('provider')
  async reserve(): Promise<unknown> {
    return currentLock()?.resources;
  }
}

@Injectable()
class Closed implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Controller()
class Endpoints {
  constructor(private readonly inventory: Inventory) {}

  @Get('unlocked')
  unlocked(): Promise<unknown> {
    return this.inventory.reserve();
  }

  @Get('context')
  @Locked(fromContext(() => 'context'))
  async context(): Promise<unknown> {
    return currentLock()?.resources;
  }

  @Get('guarded')
  @UseGuards(Closed)
  @Locked('guarded')
  async guarded(): Promise<unknown> {
    return currentLock()?.resources;
  }
}

@Module({
  imports: [RedlockModule.forRoot()],
  providers: [Inventory],
  controllers: [Endpoints],
})
class Application {}

async function start(instanceDecorator: (instance: unknown) => unknown): Promise<string> {
  const app = await NestFactory.create(Application, {
    logger: false,
    instrument: { instanceDecorator },
  });
  afterTest(() => app.close());
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}

describe('an instanceDecorator that wraps all that is a function, also the constructor', () => {
  // The methods of a map, as which Nest provides its modules, need the map itself.
  const observe = (instance: unknown): unknown =>
    typeof instance !== 'object' || instance === null || instance instanceof Map
      ? instance
      : new Proxy(instance, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key);
            if (typeof value !== 'function') return value;
            return (...args: unknown[]): unknown => Reflect.apply(value, target, args);
          },
        });

  it('lets an endpoint answer that is not locked', async () => {
    const { status, body } = await getJson(await start(observe), '/unlocked');

    expect([status, body]).toEqual([200, ['provider']]);
  });

  it('makes an endpoint fail whose resource comes from the context', async () => {
    const { status } = await getJson(await start(observe), '/context');

    expect(status).toBe(500);
  });

  it('lets an endpoint lock, but hides the guards of methods from Nest', async () => {
    const { status, body } = await getJson(await start(observe), '/guarded');

    expect([status, body]).toEqual([200, ['guarded']]);
  });
});

describe('an instanceDecorator that wraps the application in plain proxies', () => {
  const wrap = (instance: unknown): unknown =>
    instance instanceof Inventory || instance instanceof Endpoints
      ? new Proxy(instance, {})
      : instance;

  it.each([
    ['unlocked', 200],
    ['context', 200],
    ['guarded', 403],
  ])('changes nothing: %s %i', async (path, status) => {
    expect((await getJson(await start(wrap), `/${path}`)).status).toBe(status);
  });
});
