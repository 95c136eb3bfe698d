import { describe, expect, it } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { expectInstance, setScene } from './scene.js';

const ttl = 10_000;

describe('a late grant of the acquisition', () => {
  it('that arrives after the release is undone', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.release());
    await environment.advance(100);

    const undo = node(2).calls.filter(({ operation }) => operation === 'release')[1]?.request;
    expect(node(2).count('release')).toBe(2);
    // It kept others away since the release told them.
    expect(undo).toMatchObject({ wakes: true });
  });

  it('that says taken after the release is not undone', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).occupy('r', 60_000);
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.release());
    await environment.advance(100);

    expect(node(2).count('release')).toBe(1);
  });

  it('that says taken while the lock is held changes nothing', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).occupy('r', 60_000);
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));
    const before = lock.remaining;

    await environment.advance(100);

    expect(lock.remaining).toBeCloseTo(before - 100, 6);
  });

  it('that says taken is no lease: the lock is lost with one of the others', async () => {
    const { environment, redlock, node, rejection, until } = setScene();
    node(2).occupy('r', 60_000);
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(60);
    node(2).refuse('extend');
    node(0).restart();

    const error = await rejection(lock.extend());

    expect(expectInstance(error, LockLostError).reason).toBe('revoked');
    expect(lock.isValid).toBe(false);
  });

  it('that arrives when the lock is lost does not revive it', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).delay({ answer: 100 });
    const lock = await until(redlock.acquire('r', 100));
    node(0).restart();
    node(1).restart();
    await environment.advance(98);

    await environment.advance(10);

    expect(lock.isValid).toBe(false);
  });

  it('counts with the ttl that it was asked with, not with that of a later extension', async () => {
    const { environment, redlock, otherProcess, node, rejection, until } = setScene({
      options: { ttlMax: 60_000 },
    });
    node(2).delay({ answer: 20 });
    const lock = await until(redlock.acquire('r', 1_000));
    node(1).refuse('extend');
    node(2).refuse('extend');
    await rejection(lock.extend(60_000));
    await environment.advance(30);

    await environment.advance(1_000);
    const other = await until(otherProcess().acquire('r', 1_000, { wait: 0 }));

    expect({ other: other.isValid, first: lock.isValid }).toEqual({ other: true, first: false });
  });
});
