import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Scope } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  currentLock,
  fromContext,
  Locked,
  LockReentryError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { startModule, startPlain, startService, threeNodes } from './support/applications.js';
import { rejection } from './support/events.js';
import { get } from './support/requests.js';

describe('a @Locked method of every kind of instance', () => {
  @Injectable({ scope: Scope.TRANSIENT })
  class Transient {
    @Locked('kinds')
    async run(): Promise<unknown> {
      return currentLock()?.resources;
    }

    @Locked('kinds')
    async *steps(): AsyncGenerator<number, void> {
      yield 1;
    }
  }
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest extends Transient {}
  @Injectable()
  class Overriding extends Transient {
    override async run(): Promise<unknown> {
      return [currentLock(), await super.run()];
    }
  }

  it('locks in request-scoped and transient providers', async () => {
    const module = await startModule({ providers: [Transient, PerRequest] });
    const transient = await module.resolve(Transient);
    const perRequest = await module.resolve(PerRequest);

    expect(await transient.run()).toEqual(['kinds']);
    expect(await perRequest.run()).toEqual(['kinds']);
  });

  it('locks in a class made by ModuleRef.create', async () => {
    const module = await startModule({});
    const created = await module.get(ModuleRef).create(Transient);

    expect(await created.run()).toEqual(['kinds']);
  });

  it('locks the inherited method that an undecorated override calls', async () => {
    const module = await startModule({ providers: [Overriding] });

    expect(await module.get(Overriding).run()).toEqual([undefined, ['kinds']]);
  });

  it('locks in a proxy that wraps all that is a function, as those of observers do', async () => {
    @Injectable()
    class Observed extends Transient {
      constructor() {
        super();
        return new Proxy(this, {
          get(target, key) {
            const value: unknown = Reflect.get(target, key);
            if (typeof value !== 'function') return value;
            return (...args: unknown[]): unknown => Reflect.apply(value, target, args);
          },
        });
      }
    }
    const module = await startModule({ providers: [Observed] });

    expect(await module.get(Observed).run()).toEqual(['kinds']);
  });

  it('refuses the super call of an override that locks the same, or joins it', async () => {
    @Injectable()
    class Refused extends Transient {
      @Locked('kinds')
      override async run(): Promise<unknown> {
        return super.run();
      }
    }
    @Injectable()
    class Base {
      @Locked('joined', { reentrant: true })
      async run(): Promise<unknown> {
        return currentLock()?.ownerId;
      }
    }
    @Injectable()
    class Joined extends Base {
      @Locked('joined')
      override async run(): Promise<unknown> {
        return (await super.run()) === currentLock()?.ownerId;
      }
    }
    const module = await startModule({ providers: [Refused, Joined] });

    const refused = await rejection(module.get(Refused).run());

    expect(refused).toBeInstanceOf(LockReentryError);
    expect(await module.get(Joined).run()).toBe(true);
  });

  it('locks where two decorators of the same method lock different things', async () => {
    @Injectable()
    class Twice {
      @Locked('outer')
      @Locked('inner')
      async run(): Promise<unknown> {
        return [currentLock('outer')?.resources, currentLock('inner')?.resources];
      }
    }
    const module = await startModule({ providers: [Twice] });

    expect(await module.get(Twice).run()).toEqual([['outer'], ['inner']]);
  });

  it('says what to do for instances that Nest did not make, and runs nothing', async () => {
    let runs = 0;
    @Injectable()
    class Orphan {
      @Locked('kinds')
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const module = await startModule({
      providers: [
        { provide: 'factory', useFactory: () => new Orphan() },
        { provide: 'value', useValue: new Orphan() },
      ],
    });
    const detached = Orphan.prototype.run;

    for (const run of [
      () => module.get<Orphan>('factory').run(),
      () => module.get<Orphan>('value').run(),
      () => new Orphan().run(),
      () => Reflect.apply(detached, undefined, []),
    ]) {
      const error = await rejection(run());
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toMatch(/Orphan\.run.*useFactory.*Register the class/s);
    }
    expect(runs).toBe(0);
  });

  it('says when to call it instead where a constructor does, and runs nothing', async () => {
    let runs = 0;
    @Injectable()
    class Early {
      readonly called = rejection(this.run());

      @Locked('kinds')
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const module = await startModule({ providers: [Early] });

    expect(String(await module.get(Early).called)).toMatch(
      /Early\.run.*constructor.*onModuleInit/s,
    );
    expect(runs).toBe(0);
  });

  // As libraries make them: it has every method, and each gives another such mock.
  const mockOfEverything: object = new Proxy(
    {},
    { get: (_target, key) => (key === 'then' ? undefined : () => mockOfEverything) },
  );

  const withoutUsing = /Transient\.\w+ .*whose mock of the service has no using\(\)/;
  const withoutLock = /RedlockService of Transient\.\w+ .*a mock that does not lock\. Let it do/;

  it.each([
    ['without using', {}, withoutUsing],
    ['whose using gives nothing', { using: () => undefined }, withoutLock],
    ['whose using gives a mock of everything', { using: () => mockOfEverything }, withoutLock],
    ['of everything', mockOfEverything, withoutLock],
  ])('says what to do where a test gives it a mock %s', async (_name, mock, message) => {
    const module = await Test.createTestingModule({ providers: [Transient] })
      .useMocker(() => mock)
      .compile();
    afterTest(() => module.close());

    const service = await module.resolve(Transient);
    const errors = [await rejection(service.run()), await rejection(service.steps().next())];

    for (const error of errors) {
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toMatch(message);
    }
  });

  it('does not wait for a mock that never gives a stream its lock', async () => {
    const module = await Test.createTestingModule({ providers: [Transient] })
      .useMocker(() => ({ using: () => Promise.resolve() }))
      .compile();
    afterTest(() => module.close());

    const error = await rejection((await module.resolve(Transient)).steps().next());

    expect(String(error)).toMatch(withoutLock);
  });

  it('ends the start of an application without RedlockModule, saying what to import', async () => {
    @Injectable()
    class Named {
      @Locked('a', { redlock: 'billing' })
      async run(): Promise<void> {}
    }

    const missing = await rejection(startPlain({ providers: [Overriding] }));
    const missingDomain = await rejection(startModule({ providers: [Named] }));

    expect(String(missing)).toContain('Overriding');
    expect(String(missing)).toContain('import RedlockModule.forRoot(…) into the root module');
    expect(String(missingDomain)).toContain(
      "import RedlockModule.forRoot(…, { name: 'billing' }) into the root module",
    );
  });

  it('locks by the RedlockService that a test puts in its place', async () => {
    const asked: unknown[] = [];
    const replacement = {
      using: (resources: unknown): Promise<never> => {
        asked.push(resources);
        return Promise.reject(new Error('replaced'));
      },
    };
    @Injectable()
    class Service {
      @Locked('a')
      async run(): Promise<void> {}
    }
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes())],
      providers: [Service],
    })
      .overrideProvider(RedlockService)
      .useValue(replacement)
      .compile();
    afterTest(() => module.close());

    expect(String(await rejection(module.get(Service).run()))).toBe('Error: replaced');
    expect(asked).toEqual([['a']]);
  });

  it.each([
    ['a lock', async () => (await startService()).acquire('a')],
    ['a mock of a lock', async () => ({ release: async () => {} })],
  ])('serves endpoints by a mock that runs the body with %s', async (_with, makeLock) => {
    @Controller()
    class Orders {
      @Get('context')
      @Locked(fromContext(() => 'a'))
      async context(): Promise<string> {
        return typeof currentLock();
      }

      @Get('arguments')
      @Locked(() => 'a')
      async arguments(): Promise<string> {
        return typeof currentLock();
      }
    }
    const lock = await makeLock();
    afterTest(() => lock.release());
    const imports = [RedlockModule.forRoot()];
    const module = await Test.createTestingModule({ imports, controllers: [Orders] })
      .overrideProvider(RedlockService)
      .useValue({
        using: async (_a: unknown, _b: unknown, body: (lock: object) => unknown) => body(lock),
      })
      .compile();
    const application = module.createNestApplication({ logger: false });
    await application.listen(0, '127.0.0.1');
    afterTest(() => application.close());

    const url = await application.getUrl();
    const answers = [await get(url, '/context'), await get(url, '/arguments')];

    expect(answers.map(({ status, body }) => `${status} ${body}`)).toEqual(
      Array(2).fill('200 undefined'),
    );
  });
});
