// Options that are an instance of a class: what it gives by getters, or inherits, counts.
import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  Locked,
  RedlockModule,
  RedlockService,
  type LockedOptions,
  type RedlockFactoryOptions,
} from 'nestjs-locked';

import { startModule, startPlain } from './support/applications.js';
import { rejection, thrown } from './support/events.js';

/** Options of which a spread has nothing. */
class Getters {
  readonly #ttl: number;

  constructor(ttl: number) {
    this.#ttl = ttl;
  }

  get ttl(): number {
    return this.#ttl;
  }

  /** No option. */
  describe(): string {
    return `ttl ${this.#ttl}`;
  }
}

class InheritedGetters extends Getters {
  readonly wait = 0;
}

describe('options that are an instance of a class', () => {
  it.each([
    ['getters', new Getters(99)],
    ['inherited getters', new InheritedGetters(99)],
    ['inherited options', Object.create({ ttl: 99 }) as LockedOptions],
  ])('with %s count for a module and a method', async (_name, options) => {
    const useFactory = (): RedlockFactoryOptions => options;
    const register = () => RedlockModule.forRoot(undefined, options);
    const start = startPlain({ imports: [RedlockModule.forRootAsync({ useFactory })] });
    const decorate = () =>
      (Locked('a', options) as MethodDecorator)({}, 'run', { value: async () => undefined });

    expect(String(thrown(register))).toMatch(/ttl .*got 99/);
    expect(String(await rejection(start))).toMatch(/ttl .*got 99/);
    expect(String(thrown(decorate))).toMatch(/ttl .*got 99/);
  });

  it('count for a call that tries once', async () => {
    const locks = (await startModule({})).get(RedlockService);
    class Options {
      readonly #watchdog = 'often';

      get watchdog(): string {
        return this.#watchdog;
      }
    }

    const error = await rejection(locks.tryAcquire('r', 1_000, new Options() as object));

    expect(String(error)).toMatch(/watchdog .*got "often"/);
  });

  it('lock as plain ones do', async () => {
    @Injectable()
    class Jobs {
      @Locked('job', new InheritedGetters(1_000))
      async run(): Promise<string> {
        return 'done';
      }
    }
    const module = await startModule({ providers: [Jobs] });

    expect(await module.get(Jobs).run()).toBe('done');
  });

  it('name no option by a method', () => {
    expect(() => RedlockModule.forRoot(undefined, new Getters(1_000))).not.toThrow();
  });
});
