/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable, Scope, SetMetadata } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  currentLock,
  fromContext,
  getRedlockToken,
  Locked,
  LockReentryError,
  LockTakenError,
  RedlockModule,
  RedlockService,
  type LockedOptions,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { startModule, startPlain, threeNodes } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
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
    expect(runs).toBe(0);
  });
});

describe('a resource function', () => {
  it.each([
    ['undefined', undefined, 'undefined'],
    ['an empty string', '', '""'],
    ['an empty array', [], 'an empty array'],
    ['an array with a hole', ['a', undefined], 'undefined'],
    ['a number', 7, '7'],
    ['a promise', Promise.resolve('a'), 'an object'],
    ['a name made of an object', 'order:[object Object]', 'an object in a name'],
    ['such a name among others', ['a', 'order:[object Object]:pay'], 'an object in a name'],
  ])('that returns %s is an error, and nothing runs', async (_name, names, shown) => {
    let runs = 0;
    @Injectable()
    class Service {
      @Locked((() => names) as () => string)
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const module = await startModule({ providers: [Service] });

    const error = await rejection(module.get(Service).run());

    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toContain("the result of Service.run's resource function");
    expect(String(error)).toContain(`got ${shown}`);
    expect(runs).toBe(0);
    expect((await module.get(RedlockService).status()).held).toBe(0);
  });

  it('that throws rejects the call with what it throws, and nothing runs', async () => {
    const failure = new Error('no such account');
    let runs = 0;
    @Injectable()
    class Service {
      @Locked(() => {
        throw failure;
      })
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const service = (await startModule({ providers: [Service] })).get(Service);

    expect(await rejection(service.run())).toBe(failure);
    expect(runs).toBe(0);
  });
});

describe('onTaken', () => {
  const nodes = threeNodes();
  @Injectable()
  class Jobs {
    runs = 0;

    @Locked('job', { wait: 0 })
    async throwing(): Promise<string> {
      return this.work();
    }

    @Locked('job', { wait: 0, onTaken: 'skip' })
    async skipping(): Promise<string | undefined> {
      return this.work();
    }

    @Locked('job', { wait: 0, onTaken: (id: string) => `taken ${id}` })
    async falling(_id: string): Promise<string> {
      return this.work();
    }

    @Locked('other', { wait: 0, onTaken: 'skip' })
    async outer(): Promise<string | undefined> {
      return this.throwing();
    }

    @Locked('other', { wait: 0, onTaken: () => 'fallback' })
    async outerFalling(): Promise<string> {
      return this.throwing();
    }

    async work(): Promise<string> {
      this.runs += 1;
      return 'done';
    }
  }

  it('throws, skips or falls back while others hold the lock', async () => {
    const module = await startModule({ providers: [Jobs] }, {}, nodes);
    const jobs = module.get(Jobs);
    await using lock = await module.get(RedlockService).acquire('job');

    expect(lock.isValid).toBe(true);
    expect(await rejection(jobs.throwing())).toBeInstanceOf(LockTakenError);
    expect(await jobs.skipping()).toBeUndefined();
    expect(await jobs.falling('7')).toBe('taken 7');
    expect(jobs.runs).toBe(0);
  });

  it('does not swallow the errors of other locks inside the body', async () => {
    const module = await startModule({ providers: [Jobs] }, {}, nodes);
    const jobs = module.get(Jobs);
    await using lock = await module.get(RedlockService).acquire('job');

    const skipped = await rejection(jobs.outer());
    const fallen = await rejection(jobs.outerFalling());

    expect(lock.isValid).toBe(true);
    expect(skipped).toMatchObject({ code: 'LOCK_TAKEN', resources: ['job'] });
    expect(fallen).toMatchObject({ code: 'LOCK_TAKEN', resources: ['job'] });
  });

  it('does not pass for an answer where nobody knows who holds the lock', async () => {
    const faulty = faultyNodes();
    const jobs = (await startModule({ providers: [Jobs] }, {}, faulty)).get(Jobs);
    for (const node of faulty) node.refuse();

    expect(await rejection(jobs.skipping())).toMatchObject({ code: 'NO_QUORUM' });
    expect(await rejection(jobs.falling('7'))).toMatchObject({ code: 'NO_QUORUM' });
    expect(jobs.runs).toBe(0);
  });

  it('runs the method when the lock is free', async () => {
    const jobs = (await startModule({ providers: [Jobs] }, {}, nodes)).get(Jobs);

    expect(await jobs.skipping()).toBe('done');
    expect(await jobs.falling('7')).toBe('done');
  });
});

describe('holdAtLeast', () => {
  it('keeps a job from running again on another machine right after it is done', async () => {
    @Injectable()
    class Jobs {
      runs = 0;

      @Locked('nightly', { wait: 0, onTaken: 'skip', holdAtLeast: 60_000 })
      async report(): Promise<void> {
        this.runs += 1;
      }
    }
    const nodes = threeNodes();
    const options = { shutdownTimeout: 0 };
    const first = (await startModule({ providers: [Jobs] }, options, nodes)).get(Jobs);
    const second = (await startModule({ providers: [Jobs] }, options, nodes)).get(Jobs);

    await first.report();
    await second.report();

    expect([first.runs, second.runs]).toEqual([1, 0]);
  });
});

describe('@Locked on what cannot be locked', () => {
  // As compiled without experimentalDecorators: called with the value and what it is.
  function decorateByStandard(kind: string, value: unknown): unknown {
    return Reflect.apply(Locked('a'), undefined, [value, { kind, name: 'run' }]);
  }

  it.each([
    [
      'a getter',
      () => {
        class Wrong {
          // @ts-expect-error -- a getter's result is no deferred one
          @Locked('a')
          get value(): number {
            return Number('1');
          }
        }
        return Wrong;
      },
      /accessor Wrong\.value/,
    ],
    [
      'a property',
      () => {
        class Wrong {
          // @ts-expect-error -- a property has no descriptor
          @Locked('a')
          value = 1;
        }
        return Wrong;
      },
      /property Wrong\.value/,
    ],
    [
      'a static method',
      () => {
        class Wrong {
          @Locked('a')
          static async run(): Promise<void> {}
        }
        return Wrong;
      },
      /static Wrong\.run/,
    ],
    [
      'a class',
      () => {
        // @ts-expect-error -- a class is no method
        @Locked('a')
        class Wrong {}
        return Wrong;
      },
      /got the class Wrong$/,
    ],
    [
      'a method, without parentheses',
      () => {
        class Wrong {
          // @ts-expect-error -- as compilers that check no types let it pass
          @Locked
          async run(): Promise<void> {}
        }
        return Wrong;
      },
      /without parentheses on Wrong\.run$/,
    ],
    [
      'a static method, without parentheses',
      () => {
        class Wrong {
          // @ts-expect-error -- as above
          @Locked
          static async run(): Promise<void> {}
        }
        return Wrong;
      },
      /static Wrong\.run$/,
    ],
    [
      'a standard decorator without parentheses',
      (): unknown =>
        Reflect.apply(Locked, undefined, [async () => {}, { kind: 'method', name: 'run' }]),
      /experimentalDecorators/,
    ],
    [
      'a standard decorator of a method',
      () => decorateByStandard('method', async () => {}),
      /experimentalDecorators/,
    ],
    [
      'a standard decorator of a field',
      () => decorateByStandard('field', undefined),
      /experimentalDecorators/,
    ],
    [
      'a standard decorator of a class',
      () => decorateByStandard('class', class Wrong {}),
      /experimentalDecorators/,
    ],
    [
      'a method that returns a number',
      () => {
        class Wrong {
          // @ts-expect-error -- synchronous
          @Locked('a')
          count(): number {
            return 1;
          }
        }
        return Wrong;
      },
      /Wrong\.count .*\(Number\): make it async/,
    ],
    [
      'a generator',
      () => {
        class Wrong {
          // @ts-expect-error -- synchronous
          @Locked('a')
          *count() {
            yield 1;
          }
        }
        return Wrong;
      },
      /Wrong\.count .*\(a generator\)/,
    ],
  ])('%s is a TypeError when the class is defined', (_name, define, message) => {
    const error = thrown(define);

    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toMatch(message);
  });

  it.each([String, Number, Boolean, BigInt, Symbol, Array])(
    'a method declared to return what cannot come later is a TypeError at once: %p',
    (type) => {
      const target = { run: () => undefined };
      Reflect.defineMetadata('design:returntype', type, target, 'run');
      const decorate = Locked('a') as MethodDecorator;

      const error = thrown(() => decorate(target, 'run', { value: target.run }));

      expect(String(error)).toMatch(new RegExp(`synchronous method \\(${type.name}\\)`));
    },
  );

  it('rejects what a synchronous method returns, and leaves nothing locked', async () => {
    let insideLock: boolean | undefined;
    @Injectable()
    class Service {
      // @ts-expect-error -- synchronous
      @Locked('a')
      run() {
        insideLock = currentLock('a')?.isValid;
        return { count: 1 };
      }
    }
    const module = await startModule({ providers: [Service] });

    const error = await rejection(module.get(Service).run() as unknown as Promise<unknown>);

    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toMatch(/Service\.run .*a synchronous method cannot be locked/);
    expect(insideLock).toBe(true);
    expect(await module.get(RedlockService).inspect('a')).toMatchObject({ state: 'free' });
  });

  it.each([
    ['an empty resource', () => Locked(''), /Service\.run's resource.*got ""/],
    ['no resources', () => Locked([]), /got an empty array/],
    ['a resource that is a number', () => Locked(7 as unknown as string), /got 7/],
    ['a missing resource', () => Locked(undefined as unknown as string), /got undefined/],
    ['a resource that is null', () => Locked(null as unknown as string), /got null/],
    ['a reserved resource', () => Locked('redlock:x'), /redlock:/],
    ['ttl 0', () => Locked('a', 0), /ttl .*got 0/],
    ['ttl -1', () => Locked('a', -1), /ttl .*got -1/],
    ['ttl 1000.5', () => Locked('a', 1000.5), /ttl .*got 1000\.5/],
    ['ttl NaN', () => Locked('a', NaN), /ttl .*got NaN/],
    ['ttl 99', () => Locked('a', 99), /ttl .*got 99/],
    ['ttl null', () => Locked('a', null as unknown as number), /ttl in ms or an object, got null/],
    ['options []', () => Locked('a', [] as object), /ttl in ms or an object, got an empty array/],
    ['wait -1', () => Locked('a', { wait: -1 }), /wait .*got -1/],
    ['retryDelay 0', () => Locked('a', { retryDelay: { min: 0 } }), /retryDelay\.min .*got 0/],
    ['onTaken maybe', () => Locked('a', { onTaken: 'maybe' as 'skip' }), /onTaken .*got "maybe"/],
    ['reentrant 1', () => Locked('a', { reentrant: 1 as unknown as true }), /reentrant .*got 1/],
    ['an option that is none', () => Locked('a', { waits: 0 } as object), /options .*got "waits"/],
    ['an empty domain', () => Locked('a', { redlock: '' }), /lock domain .*got ""/],
  ])('refuses %s when the class is defined, naming the method', (_name, create, message) => {
    const define = (): unknown => {
      class Service {
        async run(): Promise<void> {}
      }
      const descriptor = Object.getOwnPropertyDescriptor(Service.prototype, 'run');
      (create() as MethodDecorator)(Service.prototype, 'run', descriptor ?? {});
      return Service;
    };

    const error = String(thrown(define));

    expect(error).toMatch(message);
    expect(error).toContain('Service.run');
  });

  it.each([
    ['RangeError', 'a ttl out of range', () => Locked('a', 0)],
    ['TypeError', 'an option of another type', () => Locked('a', { wait: '5s' as never })],
  ])('throws a %s for %s', (kind, _name, create) => {
    const decorate = create() as MethodDecorator;
    const define = () => decorate({}, 'run', { value: async () => {} });

    expect((thrown(define) as Error).name).toBe(kind);
  });

  it('takes a resource from the context below another @Locked for a mistake', () => {
    const define = (): unknown => {
      class Orders {
        @Locked('outer')
        @Locked(fromContext(() => 'inner'))
        async pay(): Promise<void> {}
      }
      return Orders;
    };

    expect(define).toThrow(TypeError);
    expect(define).toThrow(/fromContext on the uppermost @Locked of Orders\.pay/);
  });

  it('may ask for what only its module allows', async () => {
    @Injectable()
    class Service {
      @Locked('a', { holdAtLeast: 7_200_000, retryDelay: { max: 10 } })
      async run(): Promise<string> {
        return 'ran';
      }
    }
    const wide = { maxHold: 86_400_000, retryDelay: { min: 1, max: 5 }, ttlMax: 60_000 };
    const service = (await startModule({ providers: [Service] }, wide)).get(Service);

    expect(await service.run()).toBe('ran');
  });

  it.each<[string, LockedOptions, RegExp]>([
    ['a ttl above ttlMax', { ttl: 60_000 }, /ttl .*30000 \(ttlMax.*got 60000, .*Nightly\.run/],
    ['holdAtLeast above maxHold', { holdAtLeast: 3_600_001 }, /holdAtLeast .*Nightly\.run/],
    [
      'a retryDelay that ends below its min',
      { retryDelay: { max: 1 } },
      /retryDelay\.max .*Nightly\.run/,
    ],
  ])('refuses %s when the application starts', async (_name, options, message) => {
    @Injectable()
    class Nightly {
      @Locked('a', options)
      async run(): Promise<void> {}
    }
    @Injectable()
    class Derived extends Nightly {
      @Locked('b')
      async other(): Promise<void> {}
    }

    expect(String(await rejection(startModule({ providers: [Nightly] })))).toMatch(message);
    expect(String(await rejection(startModule({ providers: [Derived] })))).toMatch(message);
  });

  it('is compared with the module of its own lock domain', async () => {
    @Injectable()
    class Service {
      @Locked('a', { ttl: 60_000, redlock: 'long' })
      async long(): Promise<string> {
        return 'long';
      }

      @Locked('a')
      async short(): Promise<string> {
        return 'short';
      }
    }
    const long = RedlockModule.forRoot(threeNodes(), { name: 'long', ttlMax: 60_000 });
    const service = (await startModule({ imports: [long], providers: [Service] })).get(Service);

    expect([await service.long(), await service.short()]).toEqual(['long', 'short']);
  });

  it('is not compared with a double that has no module', async () => {
    class Double extends RedlockService {
      override using(...args: unknown[]): Promise<never> {
        return (args.at(-1) as () => Promise<never>)();
      }
    }
    @Injectable()
    class Service {
      @Locked('a', 60_000)
      async run(): Promise<string> {
        return 'ran';
      }
    }
    const module = await startPlain({
      providers: [
        Service,
        { provide: getRedlockToken(), useValue: new Double(undefined as never) },
      ],
    });

    expect(await module.get(Service).run()).toBe('ran');
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
