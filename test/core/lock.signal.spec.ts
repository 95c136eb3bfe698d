import { AsyncLocalStorage } from 'node:async_hooks';

import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError } from '../../lib/core/errors.js';
import { afterTest } from '../support/after-test.js';
import { expectInstance, lossThrownBy, setScene } from './scene.js';

const ttl = 10_000;

describe('the signal of a lock', () => {
  it('is always the same one, and not aborted while the lock is held', async () => {
    const { redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    const { signal } = lock;

    expect(signal).toBeInstanceOf(AbortSignal);
    expect(lock.signal).toBe(signal);
    expect(signal.aborted).toBe(false);
    expect(() => signal.throwIfAborted()).not.toThrow();
  });

  it('carries the LockLostError as its reason', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const { signal } = lock;

    await environment.advance(ttl);

    expect(expectInstance(signal.reason, LockLostError).reason).toBe('expired');
    expect(lossThrownBy(() => signal.throwIfAborted())).toBe(signal.reason);
  });

  it('that is first read when the lock is lost already is aborted', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.block(ttl);

    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('that is first read when the lock is lost already has its reason at once', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    environment.block(ttl);

    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('never aborts by a release', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);

    await until(lock.release());
    await environment.advance(5 * ttl);

    expect(lock.signal.aborted).toBe(false);
    expect(onAbort).not.toHaveBeenCalled();
  });

  it('tells its listeners where the runtime asks whether it has aborted before it does', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);
    const { abort } = AbortController.prototype;
    // As in Deno.
    const asking = jest.spyOn(AbortController.prototype, 'abort');
    asking.mockImplementation(function (this: AbortController, reason: unknown) {
      if (!this.signal.aborted) abort.call(this, reason);
    });
    afterTest(() => asking.mockRestore());

    await environment.advance(ttl);

    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(lock.signal.aborted).toBe(true);
  });

  it('aborts whatever was combined with it', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const combined = AbortSignal.any([lock.signal, new AbortController().signal]);

    await environment.advance(ttl);

    expect(combined.aborted).toBe(true);
  });

  it('tells its listeners in the async context of its holder, whoever has the timer', async () => {
    const { environment, redlock, until } = setScene();
    const storage = new AsyncLocalStorage<string>();
    const lock = await until(redlock.acquire('r', ttl));
    const seen: unknown[] = [];
    storage.run('holder', () => {
      lock.signal.addEventListener('abort', () => seen.push(storage.getStore()));
    });

    await storage.run('another', () => environment.advance(ttl));

    expect(seen).toEqual(['holder']);
  });

  it('lets a listener release the lock', async () => {
    const { environment, redlock, owners, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    lock.signal.addEventListener('abort', () => void lock.release());
    node(0).restart();
    node(1).restart();

    await environment.advance(ttl / 3 + 10);

    expect(await owners()).toEqual([null, null, null]);
  });

  it('asks the nodes once when a listener releases a lock whose release finds it lost', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    lock.signal.addEventListener('abort', () => void lock.release());
    environment.block(ttl);

    await until(lock.release());

    expect(node(0).count('release')).toBe(1);
  });
});

describe('a lost lock', () => {
  it('tells in its error also of a node that owed an answer, and was not asked', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).hang();
    await environment.advance(ttl / 3 + 10);
    node(1).restart();
    node(2).restart();

    await environment.advance(ttl / 3 + 10);

    expect(lossThrownBy(() => lock.assertHeld()).votes[0]).toEqual({
      node: 'node-0',
      vote: 'none',
      message: '',
    });
  });

  it("tells in its signal's reason also of the node whose answer ended it", async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    const { signal } = lock;
    for (const lost of [0, 1]) node(lost).restart();
    node(2).hang();

    await environment.advance(ttl / 3 + 10);

    const { votes } = expectInstance(signal.reason, LockLostError);
    expect(votes.map(({ vote }) => vote)).toEqual(['revoked', 'revoked', 'none']);
  });

  it('tells in its error also of an answer to the round before', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).restart();
    node(1).refuse();
    node(2).hang();
    await environment.advance(ttl / 3 + 10);
    node(0).refuse();
    await environment.advance(ttl / 9);
    node(2).expireNow('r');
    node(2).heal();
    await environment.advance(1);

    const error = lossThrownBy(() => lock.assertHeld());

    expect(error.votes.map(({ vote }) => vote)).toEqual(['failed', 'failed', 'revoked']);
  });

  // docs/ERRORS.md: whether to look at the nodes or at the process.
  it('that expired tells by its votes that the nodes did not extend it', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).refuse();
    node(1).hang();

    await environment.advance(ttl);

    const { reason, votes } = lossThrownBy(() => lock.assertHeld());
    expect(reason).toBe('expired');
    expect(votes.map(({ vote }) => vote)).toEqual(['failed', 'none', 'granted']);
  });

  it('that expired has no vote against it where the process stood still', async () => {
    const { environment, redlock, until } = setScene();
    const extended = await until(redlock.acquire('r', ttl, { watchdog: true }));
    await environment.advance(ttl / 2);
    const acquired = await until(redlock.acquire('s', ttl, { watchdog: true }));

    environment.block(ttl);

    const losses = [extended, acquired].map((lock) => lossThrownBy(() => lock.assertHeld()));
    expect(losses.map(({ reason }) => reason)).toEqual(['expired', 'expired']);
    expect(losses.map(({ votes }) => votes.map(({ vote }) => vote))).toEqual([
      ['granted', 'granted', 'granted'],
      [],
    ]);
  });

  it('tells in its error what the nodes had said', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { watchdog: true }));
    node(0).restart();
    node(1).restart();
    node(1).occupy('r', 60_000);
    node(2).refuse();

    await environment.advance(ttl / 3 + 10);

    const error = lossThrownBy(() => lock.assertHeld());
    expect(error.reason).toBe('revoked');
    expect(error.message).toMatch(/too few nodes still have its keys\. Nodes: node-0 revoked \(/);
    expect(error.votes).toEqual([
      {
        node: 'node-0',
        vote: 'revoked',
        message: 'the key was missing or is held by another owner',
      },
      { node: 'node-1', vote: expect.stringMatching(/revoked|none/), message: expect.any(String) },
      { node: 'node-2', vote: expect.stringMatching(/failed|none/), message: expect.any(String) },
    ]);
  });
});
