// Resources and options of @Locked that are refused, when the class is defined or at the start.
import { describe, expect, it } from '@jest/globals';
import { Controller, Inject, Injectable, Scope, UseGuards, type CanActivate } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import {
  fromContext,
  getRedlockToken,
  Locked,
  RedlockModule,
  RedlockService,
  type LockedOptions,
} from 'nestjs-locked';

import { startModule, startPlain, threeNodes } from './support/applications.js';
import { rejection, thrown } from './support/events.js';

const LOCKED_OPTIONS =
  'ttl, wait, retryDelay, watchdog, maxHold, holdAtLeast, reentrant, onTaken, redlock';

/** For an option that is none. */
const refusalOf = (name: string) =>
  new RegExp(`only options of LockedOptions \\(${LOCKED_OPTIONS}\\), got "${name}"`);

describe('@Locked', () => {
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
    ['options "skip"', () => Locked(['a', 'b'], 'skip' as never), /ttl in ms .*got "skip"/],
    ['wait -1', () => Locked('a', { wait: -1 }), /wait .*got -1/],
    ['retryDelay 0', () => Locked('a', { retryDelay: { min: 0 } }), /retryDelay\.min .*got 0/],
    ['onTaken maybe', () => Locked('a', { onTaken: 'maybe' as 'skip' }), /onTaken .*got "maybe"/],
    ['reentrant 1', () => Locked('a', { reentrant: 1 as unknown as true }), /reentrant .*got 1/],
    ['reentrant null', () => Locked('a', { reentrant: null as never }), /reentrant .*got null/],
    ['an option that is none', () => Locked('a', { waits: 0 } as object), refusalOf('waits')],
    ['a signal', () => Locked('a', { signal: AbortSignal.abort() } as object), /signal .*left out/],
    ['a signal alone', () => Locked('a', AbortSignal.abort() as object), refusalOf('\\w+')],
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

    expect(thrown(define)).toMatchObject({ name: kind, cause: { name: kind } });
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

  it('refuses a ttl above ttlMax also where the start makes no instance', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      @Locked('a', 60_000)
      async run(): Promise<void> {}
    }
    @Injectable()
    class Needy {
      readonly needed: unknown;
      constructor(@Inject('per request') needed: unknown) {
        this.needed = needed;
      }

      @Locked('a', 60_000)
      async run(): Promise<void> {}
    }
    @Injectable({ scope: Scope.REQUEST })
    class Guard extends PerRequest implements CanActivate {
      canActivate(): boolean {
        return true;
      }
    }
    @Controller()
    @UseGuards(Guard)
    class Guarded {}
    const needed = { provide: 'per request', scope: Scope.REQUEST, useFactory: () => 1 };

    for (const metadata of [
      { providers: [PerRequest] },
      { controllers: [PerRequest] },
      { providers: [Needy, needed] },
      { controllers: [Guarded] },
    ]) {
      const error = String(await rejection(startModule(metadata)));
      expect(error).toMatch(/ttl .*30000 \(ttlMax.*got 60000, .*(PerRequest|Needy)\.run/);
    }
  });

  it('refuses a ttl above ttlMax in what is made after the start, before it is called', async () => {
    @Injectable()
    class Late {
      @Locked('a', 60_000)
      async run(): Promise<void> {}
    }
    const modules = (await startModule({})).get(ModuleRef);

    const error = String(await rejection(modules.create(Late)));

    expect(error).toMatch(/ttl .*30000 \(ttlMax.*got 60000, .*Late\.run/);
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
