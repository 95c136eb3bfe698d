import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { currentLock, Locked, RedlockService } from 'nestjs-locked';

import { startModule } from './support/applications.js';
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
      'a setter',
      () => {
        class Wrong {
          // @ts-expect-error -- a setter is no method
          @Locked('a')
          set value(_value: number) {}
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
      'a method that a symbol names, without parentheses',
      () => {
        const run = Symbol('run');
        class Wrong {
          // @ts-expect-error -- as above
          @Locked
          async [run](): Promise<void> {}
        }
        return Wrong;
      },
      /without parentheses on Wrong\.Symbol\(run\)$/,
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

  it('does not judge an override by what the method below is declared to return', () => {
    class Parent {}
    Reflect.defineMetadata('design:returntype', String, Parent.prototype, 'run');
    class Child extends Parent {}
    const decorate = Locked('a') as MethodDecorator;
    const descriptor = { value: async () => 'ran' };

    // As by a compiler that writes no metadata.
    expect(() => decorate(Child.prototype, 'run', descriptor)).not.toThrow();
  });

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
});
