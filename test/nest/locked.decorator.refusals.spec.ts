import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  currentLock,
  fromContext,
  getRedlockToken,
  Locked,
  RedlockModule,
  RedlockService,
  type LockedOptions,
} from 'nestjs-locked';

import { startModule, startPlain, threeNodes } from './support/applications.js';
import { rejection, thrown } from './support/events.js';

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
