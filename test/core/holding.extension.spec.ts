import { describe, expect, it, jest } from '@jest/globals';

import { ExtensionRound } from '../../lib/core/extension-round.js';
import { deferred, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

const validity = ttl * 0.99 - 2;

const watched = { watchdog: true };

describe('a round of extension', () => {
  const terms = { ttl, startedAt: 0, until: 0, clockGapMax: 0 };

  it('settles once, however often it is told to', () => {
    const round = new ExtensionRound(terms, [0], 1);
    const onSettled = jest.fn();
    round.onSettled(onSettled);

    round.settle(true);
    round.settle(false);

    expect(onSettled.mock.calls).toEqual([[true]]);
  });

  it('counts each node once, however often its answer arrives', () => {
    const round = new ExtensionRound(terms, [0, 1, 2], 2);
    const onSettled = jest.fn();
    round.onSettled(onSettled);

    round.answered(0, { vote: 'granted' });
    round.answered(0, { vote: 'granted' });
    const callsBefore = onSettled.mock.calls.length;
    round.answered(2, { vote: 'granted' });

    expect(callsBefore).toBe(0);
    expect(onSettled.mock.calls).toEqual([[true]]);
  });
});

describe('one failing extension', () => {
  it('does not drop the lock: the next one succeeds', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) node.fail('answerOdd', 'extend');
    await environment.advance(ttl / 3 + 10);

    for (const node of nodes) node.heal();
    await environment.advance(5 * ttl);

    expect(lock.isValid).toBe(true);
    expect(lock.signal.aborted).toBe(false);
    expect(observer.lost).not.toHaveBeenCalled();
  });

  it('is followed by the next after a ninth of the ttl', async () => {
    const { environment, redlock, nodes, node, until } = setScene();
    await until(redlock.acquire('r', ttl, watched));
    for (const each of nodes) each.refuse('extend');

    await environment.advance(ttl / 3 + ttl / 9 - 20);
    const countBefore = node(0).count('extend');
    await environment.advance(30);

    expect(countBefore).toBe(1);
    expect(node(0).count('extend')).toBe(2);
  });
});

describe('nodes that hang while a lock is held', () => {
  it('make its signal abort at the end of validity, not seconds after it', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);
    for (const node of nodes) node.hang();

    await environment.advance(validity - 2);
    const callsBefore = onAbort.mock.calls.length;
    await environment.advance(2);

    expect(callsBefore).toBe(0);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', expect.any(Number));
  });

  it('are not asked again while an extension is outstanding', async () => {
    const { environment, redlock, nodes, node, until } = setScene();
    await until(redlock.acquire('r', ttl, watched));
    node(0).hang();

    await environment.advance(0.9 * ttl);

    expect(nodes.map((each) => each.count('extend'))).toEqual([1, 2, 2]);
  });

  it('are asked again when an answer is overdue by a whole ttl: it may have been lost', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).fail('requestLost', 'extend');
    await environment.advance(ttl / 3 + 10);
    node(0).heal();

    await environment.advance(2 * ttl);

    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
  });

  it('and answer only after the end of validity do not revive the lock', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    await environment.advance(ttl / 3 - 10);
    for (const node of nodes) node.delay({ answer: ttl });

    await environment.advance(2 * ttl);

    expect(lock.isValid).toBe(false);
    expect(lock.remaining).toBe(0);
  });

  it('and answer after the release are asked to release once more', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).delay({ answer: 100 });
    await environment.advance(ttl / 3);

    await until(lock.release());
    await environment.advance(200);

    expect(node(0).count('release')).toBe(2);
    expect(await owners()).toEqual([null, null, null]);
  });
});

describe('an extension answer that is late and says that nothing was done', () => {
  it('after the release needs no other release', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).fail('misconfigured', 'extend');
    node(0).delay({ answer: 100 });
    await environment.advance(ttl / 3);

    await until(lock.release());
    await environment.advance(200);

    expect(node(0).count('release')).toBe(1);
  });
});

describe('a body that ends while an extension is in flight', () => {
  it('leaves no timer and no key', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const body = deferred();
    const call = redlock.using('r', { ttl }, () => body.promise);
    await environment.settle();
    for (const node of nodes) node.delay({ answer: 20 });
    await environment.advance(ttl / 3 + 5);

    body.resolve();
    await until(call);
    const timersAtTheEnd = environment.pendingTimers;

    await environment.advance(100);

    expect(timersAtTheEnd).toBe(0);
    expect(environment.pendingTimers).toBe(0);
    expect(await owners()).toEqual([null, null, null]);
  });

  it('leaves no timer when the watchdog began while an extension by hand was in flight', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    await environment.advance(ttl / 3 - 100);
    for (const node of nodes) node.hang();
    const extension = reasonOf(lock.extend());
    await environment.advance(200);

    const release = lock.release();
    for (const node of nodes) node.heal();
    await until(release, 10);

    expect(environment.processHoldingTimers).toBe(0);
    await until(extension);
  });
});
