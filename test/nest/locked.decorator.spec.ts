/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable, SetMetadata } from '@nestjs/common';
import {
  currentLock,
  fromContext,
  Locked,
  LockTakenError,
  RedlockModule,
  RedlockService,
} from 'nestjs-locked';

import { startModule, threeNodes } from './support/applications.js';
import { Gate, rejection, thrown } from './support/events.js';

/** Enters on call, and leaves when the test opens the gate. */
class Room {
  entered = new Gate();
  readonly leave = new Gate();
  inside = 0;
  insideMax = 0;

  async visit(): Promise<void> {
    this.inside += 1;
    this.insideMax = Math.max(this.insideMax, this.inside);
    this.entered.open();
    await this.leave.passed;
    this.inside -= 1;
  }
}

describe('a @Locked method', () => {
  it('runs one call at a time for a resource, over several services', async () => {
    @Injectable()
    class Stock {
      inside = 0;
      insideMax = 0;
      sold = 0;

      @Locked('stock', { wait: 2_000 })
      async sell(): Promise<void> {
        this.inside += 1;
        this.insideMax = Math.max(this.insideMax, this.inside);
        await Promise.resolve();
        this.sold += 1;
        this.inside -= 1;
      }
    }
    const stock = (await startModule({ providers: [Stock] })).get(Stock);

    await Promise.all(Array.from({ length: 20 }, () => stock.sell()));

    expect(stock.sold).toBe(20);
    expect(stock.insideMax).toBe(1);
  });

  it('says in the stack of a refusal who called', async () => {
    @Injectable()
    class Stock {
      @Locked('stock', { wait: 0 })
      async sell(): Promise<void> {
        await Promise.resolve();
      }
    }
    const module = await startModule({ providers: [Stock] });
    const lock = await module.get(RedlockService).acquire('stock');
    const serveCustomer = async (): Promise<void> => {
      await module.get(Stock).sell();
    };

    const error = await rejection(serveCustomer());

    expect(error).toBeInstanceOf(LockTakenError);
    expect((error as Error).stack).toMatch(/ at (async )?serveCustomer /);
    await lock.release();
  });

  it('excludes another application over the same nodes', async () => {
    const room = new Room();
    @Injectable()
    class Service {
      @Locked('room', { wait: 0 })
      async enter(): Promise<void> {
        await room.visit();
      }
    }
    const nodes = threeNodes();
    const first = (await startModule({ providers: [Service] }, {}, nodes)).get(Service);
    const second = (await startModule({ providers: [Service] }, {}, nodes)).get(Service);

    const visit = first.enter();
    await room.entered.passed;
    const refused = await rejection(second.enter());
    room.leave.open();
    await visit;

    expect(refused).toBeInstanceOf(LockTakenError);
    await second.enter();
    expect(room.insideMax).toBe(1);
  });

  it('passes arguments, this and the result through', async () => {
    @Injectable()
    class Adder {
      readonly base = 1;

      @Locked('sum')
      async add(left: number, right: number): Promise<number> {
        return this.base + left + right;
      }
    }
    const adder = (await startModule({ providers: [Adder] })).get(Adder);

    expect(await adder.add(2, 3)).toBe(6);
  });

  it.each([null, undefined, 0, ''])('may give nothing: %p', async (nothing) => {
    @Injectable()
    class Finder {
      @Locked('nothing')
      async find(): Promise<unknown> {
        return nothing;
      }
    }
    const finder = (await startModule({ providers: [Finder] })).get(Finder);

    expect(await finder.find()).toBe(nothing);
  });

  it('names its resources by a function of its arguments and of this', async () => {
    @Injectable()
    class Bank {
      readonly prefix = 'account';

      @Locked(function (this: Bank, from: string, to: string) {
        return [`${this.prefix}:${from}`, `${this.prefix}:${to}`];
      })
      async transfer(_from: string, _to: string, _amount: number): Promise<unknown> {
        return currentLock()?.resources;
      }
    }
    const bank = (await startModule({ providers: [Bank] })).get(Bank);

    expect(await bank.transfer('b', 'a', 1)).toEqual(['account:a', 'account:b']);
  });

  it('gives its lock to the body by currentLock, and to nobody after', async () => {
    @Injectable()
    class Service {
      later: Promise<unknown> | undefined;
      readonly gate = new Gate();

      @Locked('a')
      async run(): Promise<unknown> {
        this.later = this.gate.passed.then(() => currentLock());
        await Promise.resolve();
        return [currentLock()?.resources, currentLock('a')?.isValid, currentLock('b')];
      }
    }
    const service = (await startModule({ providers: [Service] })).get(Service);

    expect(await service.run()).toEqual([['a'], true, undefined]);
    service.gate.open();
    expect(await service.later).toBeUndefined();
    expect(currentLock()).toBeUndefined();
  });

  it('comes out with the very error of its body', async () => {
    const failure = new Error('body');
    @Injectable()
    class Service {
      @Locked('a')
      async run(): Promise<void> {
        throw failure;
      }
    }
    const module = await startModule({ providers: [Service] });

    expect(await rejection(module.get(Service).run())).toBe(failure);
    expect(await module.get(RedlockService).inspect('a')).toMatchObject({ state: 'free' });
  });

  it('leaves the fields of the instance alone', async () => {
    @Injectable()
    class Service {
      readonly redlockService = 'mine';
      readonly redlock = 'mine too';

      @Locked('a')
      async run(): Promise<void> {}
    }
    const service = (await startModule({ providers: [Service] })).get(Service);
    await service.run();

    expect(Object.keys(service)).toEqual(['redlockService', 'redlock']);
    expect(Object.getOwnPropertySymbols(Object.assign({}, service))).toEqual([]);
    expect(service).toMatchObject({ redlockService: 'mine', redlock: 'mine too' });
  });

  it('keeps its name, length and metadata of decorators above and below', () => {
    class Service {
      @SetMetadata('above', 1)
      @Locked('a')
      @SetMetadata('below', 2)
      async run(_first: string, _second: string): Promise<void> {}
    }
    const { run } = Service.prototype;

    expect([run.name, run.length]).toEqual(['run', 2]);
    expect(Reflect.getMetadata('above', run)).toBe(1);
    expect(Reflect.getMetadata('below', run)).toBe(2);
  });
});

describe('a transaction that another decorator opens around the method', () => {
  const states: string[] = [];

  function Transactional(): MethodDecorator {
    return (_target, _key, descriptor: PropertyDescriptor) => {
      const method = descriptor.value as (this: { redlock: RedlockService }) => Promise<void>;
      descriptor.value = async function (this: { redlock: RedlockService }): Promise<void> {
        await method.call(this);
        states.push((await this.redlock.inspect('stock')).state);
      };
    };
  }

  @Injectable()
  class Stock {
    constructor(readonly redlock: RedlockService) {}

    @Locked('stock')
    @Transactional()
    async inner(): Promise<void> {}

    @Transactional()
    @Locked('stock')
    async outer(): Promise<void> {}
  }

  it('commits inside the lock below @Locked, and after the release above it', async () => {
    const stock = (await startModule({ providers: [Stock] })).get(Stock);

    await stock.inner();
    await stock.outer();

    expect(states).toEqual(['held', 'free']);
  });
});

describe('fromContext', () => {
  it('refuses what is no function', () => {
    expect(String(thrown(() => fromContext('a' as never)))).toMatch(/a function, got "a"/);
  });

  it('needs a call that comes through Nest, and nothing runs without', async () => {
    let runs = 0;
    @Injectable()
    class Service {
      @Locked(fromContext(() => 'a'))
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const service = (await startModule({ providers: [Service] })).get(Service);

    const error = await rejection(service.run());

    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toContain('Service.run to be called by Nest with LockedInterceptor on');
    expect(String(error)).toContain('docs/CONTEXTS.md');
    expect(runs).toBe(0);
  });
});

describe('a @Locked method of a named lock domain', () => {
  it('locks by the nodes of that domain', async () => {
    @Injectable()
    class Service {
      @Locked('a', { redlock: 'billing', wait: 0 })
      async bill(): Promise<string> {
        return this.stock();
      }

      @Locked('a', { wait: 0 })
      async stock(): Promise<string> {
        return 'both held';
      }
    }
    const module = await startModule({
      imports: [RedlockModule.forRoot(threeNodes(), { name: 'billing' })],
      providers: [Service],
    });

    // The same name in two domains is two locks: no re-entry.
    expect(await module.get(Service).bill()).toBe('both held');
  });
});
