// How an application's tests take, delay and lose locks, with vitest: no Redis, no waiting. A twin
// of the one for jest, so that whoever uses either has to read no other file.
import { Test, type TestingModule } from '@nestjs/testing';
import { LockLostError, RedlockModule } from 'nestjs-locked';
import { fakeTimersEnvironment, FaultyNode } from 'nestjs-locked/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ReservationsService } from './reservations.service.js';

describe('reservations', () => {
  let module: TestingModule;
  let node: FaultyNode;
  let reservations: ReservationsService;

  // With this environment, fake timers move the time of locks.
  async function start(options = {}): Promise<void> {
    node = new FaultyNode(options);
    module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot([node], options)],
      providers: [ReservationsService],
    }).compile();
    module.useLogger(false);
    reservations = module.get(ReservationsService);
  }

  afterEach(async () => {
    vi.useRealTimers();
    await module.close();
  });

  it('are made under a lock', async () => {
    await start();

    expect(await reservations.reserve('apple')).toBe('reserved');
    expect(node.calls.map(({ operation }) => operation)).toEqual(['acquire', 'release']);
  });

  it('say busy while others hold the sku', async () => {
    await start();
    node.occupy('sku:apple');

    expect(await reservations.reserve('apple')).toBe('busy');
    expect(reservations.stored).toEqual([]);
  });

  it('fail without being made when the nodes cannot be reached', async () => {
    await start();
    node.refuse();

    await expect(reservations.reserve('apple')).rejects.toMatchObject({ code: 'NO_QUORUM' });
    expect(reservations.stored).toEqual([]);
  });

  it('stop being counted as soon as the lock is lost', async () => {
    vi.useFakeTimers();
    await start({ environment: fakeTimersEnvironment() });
    const count = async (sku: string): Promise<void> => {
      if (sku !== 'pear') return;
      node.lose();
      // The watchdog extends after a third of the ttl, and hears that the keys are gone.
      await vi.advanceTimersByTimeAsync(2_500);
    };

    const counting = reservations.countAll(['apple', 'pear', 'plum'], count);

    await expect(counting).rejects.toBeInstanceOf(LockLostError);
    expect(reservations.stored).toEqual(['apple', 'pear']);
  });

  it('are counted to the end although that takes longer than the ttl', async () => {
    vi.useFakeTimers();
    await start({ environment: fakeTimersEnvironment() });

    await reservations.countAll(['apple', 'pear'], async () => {
      await vi.advanceTimersByTimeAsync(60_000);
    });

    expect(reservations.stored).toEqual(['apple', 'pear']);
    expect(node.count('extend')).toBeGreaterThan(50);
  });

  it('are made in real time where only the application has fake timers', async () => {
    vi.useFakeTimers();
    await start();

    expect(await reservations.reserve('apple')).toBe('reserved');
  });
});
