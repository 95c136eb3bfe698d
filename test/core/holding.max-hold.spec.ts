import { describe, expect, it } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

const watched = { watchdog: true };

describe('maxHold', () => {
  const options = { ...watched, maxHold: 30_000 };

  it('ends the lock of a body that hangs', async () => {
    const { environment, redlock, owners, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, options));

    await environment.advance(30_000);
    const isValidAtMaxHold = lock.isValid;
    await environment.advance(ttl + 10);

    expect(isValidAtMaxHold).toBe(true);
    expect(lock.isValid).toBe(false);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'maxHold', expect.any(Number));
    expect(await owners()).toEqual([null, null, null]);
    expect(environment.pendingTimers).toBe(0);
  });

  it('is the reason of the loss also when the validity ends within a millisecond', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', 10_050, options));

    await environment.advance(60_000);

    expect(observer.lost.mock.calls).toEqual([[lock, 'maxHold', expect.any(Number)]]);
  });

  it('is the reason of the loss also where it is over before the first extension', async () => {
    const { environment, redlock, observer, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { ...watched, maxHold: 1_000 }));

    await environment.advance(ttl);

    expect(observer.lost.mock.calls).toEqual([[lock, 'maxHold', expect.any(Number)]]);
    expect(node(0).count('extend')).toBe(0);
  });

  it('is not what ended a lock that nobody extends', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { maxHold: 1_000 }));

    await environment.advance(ttl);

    expect(observer.lost.mock.calls).toEqual([[lock, 'expired', expect.any(Number)]]);
  });

  it('is not what ended a lock whose process stood still until long after', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, options));
    await environment.advance(5_000);

    environment.block(60_000);
    await environment.advance(1);

    expect(observer.lost.mock.calls).toEqual([[lock, 'expired', expect.any(Number)]]);
  });

  it('is what ended a lock that its holder has extended until then', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { maxHold: 1_000 }));
    await environment.advance(500);
    await until(lock.extend());

    await environment.advance(ttl);

    expect(observer.lost.mock.calls).toEqual([[lock, 'maxHold', expect.any(Number)]]);
  });

  it('refuses an extension by hand', async () => {
    const { environment, redlock, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, options));
    await environment.advance(30_010);

    const error = expectInstance(await rejection(lock.extend()), LockLostError);

    expect(error.reason).toBe('maxHold');
    expect(error.message).toMatch(/cannot be extended: its maxHold is over/);
    expect(lock.isValid).toBe(true);
  });

  it('is not what ended a lock that was lost before', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, options));
    for (const node of nodes) node.restart();
    await environment.advance(30_010);

    const error = expectInstance(await rejection(lock.extend()), LockLostError);

    expect(error.reason).toBe('revoked');
  });

  it('that ends while an extension waits for another refuses it', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { maxHold: 200 }));
    for (const node of nodes) node.delay({ answer: 150 });
    await environment.advance(100);
    const first = lock.extend();
    const second = reasonOf(lock.extend());

    await until(first);

    expect(expectInstance(await until(second), LockLostError).reason).toBe('maxHold');
    expect(lock.isValid).toBe(true);
  });
});
