/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
import 'reflect-metadata';

import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked, LockTakenError, RedlockService } from 'nestjs-locked';

import { startModule, threeNodes } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { rejection, turn } from './support/events.js';

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
    readonly skipped: string[] = [];

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

    @Locked('job', { wait: 0, onTaken: countSkipped })
    async counting(_id: string): Promise<void> {
      await this.work();
    }

    @Locked('other', { wait: 0, onTaken: 'skip' })
    async outer(): Promise<string | undefined> {
      return this.throwing();
    }

    @Locked('other', { wait: 0, onTaken: () => 'fallback' })
    async outerFalling(): Promise<string> {
      return this.throwing();
    }

    @Locked('job', { wait: 0, onTaken: 'skip' })
    async nested(): Promise<string | undefined> {
      return this.skipping();
    }

    async work(): Promise<string> {
      this.runs += 1;
      return 'done';
    }
  }

  function countSkipped(this: Jobs, id: string): void {
    this.skipped.push(id);
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

  it('calls a function on the instance', async () => {
    const module = await startModule({ providers: [Jobs] }, {}, nodes);
    const jobs = module.get(Jobs);
    await using lock = await module.get(RedlockService).acquire('job');

    await jobs.counting('7');

    expect(lock.isValid).toBe(true);
    expect(jobs).toMatchObject({ runs: 0, skipped: ['7'] });
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

  it('is not asked where the call itself holds the lock', async () => {
    const jobs = (await startModule({ providers: [Jobs] }, {}, nodes)).get(Jobs);

    expect(await rejection(jobs.nested())).toMatchObject({ code: 'LOCK_REENTRY' });
    expect(jobs.runs).toBe(0);
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

describe('wait', () => {
  it('goes on when a timeout around the call has passed: each try that was given up runs', async () => {
    let runs = 0;
    @Injectable()
    class Service {
      @Locked('a', { wait: 10_000 })
      async run(): Promise<void> {
        runs += 1;
      }
    }
    const module = await startModule({ providers: [Service] });
    const others = await module.get(RedlockService).acquire('a');
    const timedOut = (): Promise<unknown> => Promise.race([module.get(Service).run(), turn()]);
    await timedOut();
    await timedOut();
    expect(runs).toBe(0);

    await others.release();
    await module.get(RedlockService).using('a', { wait: 10_000 }, () => undefined);

    expect(runs).toBe(2);
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
