import { describe, expect, it, jest } from '@jest/globals';

import { LockLostError, NoQuorumError } from '../../lib/core/errors.js';
import { ExtensionRound } from '../../lib/core/extension-round.js';
import { hasSlept, NodeLeases, RoundTerms } from '../../lib/core/node-leases.js';
import { silentObserver } from '../../lib/core/observer.js';
import { resolveOptions } from '../../lib/core/options.js';
import { askForRelease } from '../../lib/core/release-round.js';
import { listen, requestFor, worldOf } from '../support/node-harness.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { deferred, expectInstance, extendedTtls, reasonOf, setScene } from './scene.js';

const ttl = 10_000;
const validity = ttl * 0.99 - 2;
const watched = { watchdog: true };

describe('the lease of a node', () => {
  const start = (startedAt: number, clockGapMax = 0) => ({
    ttl: 1_000,
    startedAt,
    until: startedAt + 988,
    clockGapMax,
  });

  it('only grows, in whatever order the answers arrive', () => {
    const leases = new NodeLeases(1, 1);

    leases.grant(0, start(500));
    leases.grant(0, start(100));

    expect(leases.validUntil).toBe(500 + 988);
  });

  it('that was revoked counts again only for a round begun after that was known', () => {
    const leases = new NodeLeases(1, 1);
    leases.grant(0, start(100));

    leases.revoke(0, 400);
    leases.grant(0, start(400));
    const validUntilRevoked = leases.validUntil;
    leases.grant(0, start(401));

    expect(validUntilRevoked).toBe(-Infinity);
    expect(leases.validUntil).toBe(401 + 988);
  });

  it('of a node that does not exist is ignored', () => {
    const leases = new NodeLeases(1, 1);

    leases.grant(7, start(100));
    leases.revoke(7, 100);

    expect(leases.validUntil).toBe(-Infinity);
  });

  it('outside the quorum does not decide how far the clocks had drifted apart', () => {
    const leases = new NodeLeases(3, 2);

    leases.grant(0, start(100, 5));
    leases.grant(1, start(200, 50));
    leases.grant(2, start(300, 70));

    expect(leases.clockGapMax).toBe(50);
  });
});

describe('the terms of a round', () => {
  it.each([
    [10_000, 1_000],
    [1_000_000, 10_000],
  ])('of %i ms allow the wall clock to run ahead by %i ms', (longTtl, allowance) => {
    const environment = new SimulatedEnvironment({ now: 10, wallClock: 1_010 });

    const terms = new RoundTerms(environment, longTtl, 0.01);

    expect(terms).toEqual({
      ttl: longTtl,
      startedAt: 10,
      until: 10 + longTtl * 0.99 - 2,
      clockGapMax: 1_000 + allowance,
    });
    environment.suspend(allowance);
    expect(hasSlept(environment, environment.now(), terms.clockGapMax)).toBe(false);
    environment.suspend(1);
    expect(hasSlept(environment, environment.now(), terms.clockGapMax)).toBe(true);
  });
});

describe('a round of extension', () => {
  it('settles once, however often it is told to', () => {
    const round = new ExtensionRound({ ttl, startedAt: 0, until: 0, clockGapMax: 0 }, 1);
    const onSettled = jest.fn();
    round.onSettled(onSettled);

    round.settle(true);
    round.settle(false);

    expect(onSettled.mock.calls).toEqual([[true]]);
  });
});

describe('a round of release', () => {
  it('tells once how many listen, as far as any of its nodes knows', async () => {
    const { environment, nodes, node } = setScene();
    const token = Math.floor(environment.wallClock() * 1_000);
    const options = resolveOptions({}, nodes.length);
    const ensemble = { nodes, quorum: 2, options, environment, observer: silentObserver };
    const onDone = jest.fn();
    const ear = listen(node(0), worldOf(), 'r');
    const request = { ...requestFor({ world: options.world, token }), wakes: true };
    node(0).acquire(request, () => undefined);
    node(2).delay({ answer: 1 });
    await environment.settle();

    askForRelease(ensemble, [], request, onDone);
    await environment.advance(10);

    expect(onDone.mock.calls).toEqual([[1]]);
    (await ear).stop();
  });
});

describe('a fresh lock', () => {
  it('is valid for the ttl less drift and guard, counted from before the first request', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ request: 10, answer: 10 });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.remaining).toBeCloseTo(validity - 20, 6);
    await environment.advance(lock.remaining - 0.01);
    expect(lock.isValid).toBe(true);
    await environment.advance(0.02);
    expect(lock.isValid).toBe(false);
  });

  it('is never valid for longer than a quorum of nodes keeps its key', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ request: 40, answer: 3 });

    const lock = await until(redlock.acquire('r', ttl));

    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.min(...lifetimes)).toBeGreaterThan(lock.remaining);
    expect(environment.pendingTimers).toBeGreaterThan(0);
  });

  it('gains the lease of a node that grants after the quorum was reached', async () => {
    const { environment, redlock, node, until } = setScene();
    node(2).delay({ answer: 50 });
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(60);
    node(0).restart();

    await until(lock.extend());

    expect(lock.isValid).toBe(true);
  });

  it('expires on the millisecond although nobody asks', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);

    await environment.advance(validity - 2);
    const callsBefore = onAbort.mock.calls.length;
    await environment.advance(2);

    expect(callsBefore).toBe(0);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', expect.any(Number));
    expect(environment.pendingTimers).toBe(0);
  });
});

describe('the watchdog', () => {
  it('extends every third of the ttl, so that the lock outlives its ttl', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));

    await environment.advance(10 * ttl);

    expect(lock.isValid).toBe(true);
    expect(lock.remaining).toBeGreaterThan(validity - ttl / 3 - 5);
    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(node(0).count('extend')).toBe(30);
  });

  it('does not extend a lock that was acquired by hand with a ttl', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await environment.advance(ttl);

    expect(node(0).count('extend')).toBe(0);
    expect(lock.isValid).toBe(false);
  });

  it('keeps the fencing token', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    const token = lock.fencingToken;

    await environment.advance(3 * ttl);

    expect(lock.fencingToken).toBe(token);
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

describe('a lock whose watchdog had given up', () => {
  it('is extended again once its holder extends it', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) node.refuse('extend');
    await environment.advance(0.95 * ttl);

    for (const node of nodes) node.heal();
    await until(lock.extend());
    await environment.advance(3 * ttl);

    expect(lock.isValid).toBe(true);
  });

  it('is extended again once late answers to two rounds make up a quorum', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).hang();
    node(1).fail('requestLost', 'extend');
    node(2).refuse('extend');
    await environment.advance(0.8 * ttl);
    node(2).heal();
    await environment.advance(0.15 * ttl);

    node(0).heal();
    node(1).heal();
    await environment.advance(3 * ttl);

    expect(lock.isValid).toBe(true);
  });
});

describe('an extension by hand to another ttl', () => {
  it('that fails leaves the watchdog with the ttl that the lock has', async () => {
    const { environment, redlock, nodes, until, rejection } = setScene();
    const lock = await until(redlock.acquire('r', 1_000, watched));
    for (const node of nodes) node.refuse('extend');
    await environment.advance(300);

    await rejection(lock.extend(30_000));
    await environment.advance(100);
    for (const node of nodes) node.heal();
    await environment.advance(3_000);

    expect(lock.isValid).toBe(true);
  });

  it('that succeeds is what the lock is given from then on', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', 1_000, watched));

    await until(lock.extend(6_000));
    await environment.advance(4_000);
    await until(lock.extend());

    expect(new Set(extendedTtls(node(0)))).toEqual(new Set([6_000]));
    expect(lock.remaining).toBeGreaterThan(5_000);
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

describe('a lost lock', () => {
  it('is not brought back by the next extension: loss, not a new acquisition', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) node.restart();

    await environment.advance(ttl / 3 + 10);
    const isValidAfterRound = lock.isValid;
    await environment.advance(5 * ttl);

    expect(isValidAfterRound).toBe(false);
    expect(lock.isValid).toBe(false);
    expect(observer.lost.mock.calls).toEqual([[lock, 'revoked', expect.any(Number)]]);
  });

  it("never overwrites another owner's key", async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    for (const node of nodes) {
      node.restart();
      node.occupy('r', 60_000);
    }

    await environment.advance(2 * ttl);
    await until(lock.release());

    expect(await owners()).toEqual(['another client', 'another client', 'another client']);
    expect(lock.isValid).toBe(false);
  });

  it('keeps its keys while its body may still run', async () => {
    const { environment, redlock, node, until } = setScene();
    const body = deferred();
    const error = reasonOf(redlock.using('r', { ttl }, () => body.promise));
    await environment.settle();
    node(0).restart();
    node(1).restart();
    await environment.advance(ttl / 3 + 10);

    const kept = await node(2).ownerOf('r');
    body.resolve();

    expect(expectInstance(await until(error), LockLostError).reason).toBe('revoked');
    expect(kept).not.toBeNull();
    expect(await node(2).ownerOf('r')).toBeNull();
  });

  it('sends nothing more', async () => {
    const { environment, redlock, node, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(ttl);

    const error = await rejection(lock.extend());

    expect(expectInstance(error, LockLostError).reason).toBe('expired');
    expect(node(0).count('extend')).toBe(0);
  });
});

describe('a node that lost its keys', () => {
  it('alone of three does not cost the lock, and counts again after a later extension', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, watched));
    node(0).restart();
    await environment.advance(ttl / 3 + 10);
    const isValidAfterRevocation = lock.isValid;
    await environment.advance(ttl / 3 + 10);

    node(1).restart();
    await environment.advance(ttl / 3 + 10);

    expect(isValidAfterRevocation).toBe(true);
    expect(lock.isValid).toBe(true);
  });

  it('may move the end of validity to an earlier one, of which the holder is told in time', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const onAbort = jest.fn();
    lock.signal.addEventListener('abort', onAbort);
    await environment.advance(4_000);
    await until(lock.extend());
    await environment.advance(4_000);
    node(2).refuse('extend');
    await until(lock.extend());
    await environment.advance(4_000);
    node(0).restart();
    node(1).refuse('extend');
    await until(reasonOf(lock.extend()));
    const remaining = lock.remaining;

    await environment.advance(remaining + 1);

    expect(remaining).toBeLessThan(2_000);
    expect(onAbort).toHaveBeenCalledTimes(1);
    expect(environment.pendingTimers).toBe(0);
  });

  it('does not count in the very round that stored its key again', async () => {
    const { redlock, node, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(0).restart();
    node(1).fail('answerOdd', 'extend');

    const error = await rejection(lock.extend());

    expect(expectInstance(error, NoQuorumError).votes.map(({ vote }) => vote)).toEqual([
      'revoked',
      'failed',
      'granted',
    ]);
    expect(lock.isValid).toBe(true);
  });
});

describe('quarantined nodes', () => {
  it('do not renew a lease, and do not take it either', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const before = lock.remaining;
    for (const node of nodes) node.fail('quarantined', 'extend');
    await environment.advance(100);

    const error = await rejection(lock.extend());

    expect(expectInstance(error, NoQuorumError).message).toContain('restarted or lost its data');
    expect(lock.remaining).toBeCloseTo(before - 100, 6);
  });
});

describe('an extension by hand', () => {
  it('gives the lock its ttl anew', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(5_000);

    await until(lock.extend());

    expect(lock.remaining).toBeCloseTo(validity, 6);
    expect(observer.extended).toHaveBeenCalledWith(lock);
  });

  it('may name another ttl, and never shortens what there is', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await until(lock.extend(1_000));
    const afterShorter = lock.remaining;
    await until(lock.extend(20_000));

    expect(afterShorter).toBeCloseTo(validity, 6);
    expect(lock.remaining).toBeCloseTo(20_000 * 0.99 - 2, 6);
    const lifetimes = await Promise.all(nodes.map((node) => node.keyLifetime('r')));
    expect(Math.min(...lifetimes)).toBeGreaterThan(19_900);
  });

  it('of an expired-on-time lock moves the notice of its end', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(9_000);
    await until(lock.extend());

    await environment.advance(9_000);
    const isValidBefore = lock.isValid;
    await environment.advance(1_000);

    expect(isValidBefore).toBe(true);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', expect.any(Number));
  });

  it('is refused after the node timeout when the nodes hang; the lock is still held', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const error = expectInstance(await rejection(lock.extend()), NoQuorumError);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
    expect(error.votes.map(({ vote }) => vote)).toEqual(['none', 'none', 'none']);
    expect(error.resources).toEqual(['r']);
    expect(error.message).toMatch(
      /^Could not extend the lock of "r": too few nodes did\. It is held for another \d+ ms\. Nodes: /,
    );
    expect(lock.isValid).toBe(true);
  });

  it('waits for the one under way', async () => {
    const { environment, redlock, nodes, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const each of nodes) each.delay({ answer: 10 });

    const both = Promise.all([lock.extend(), lock.extend()]);
    await environment.settle();
    const askedAtFirst = node(0).count('extend');
    await until(both);

    expect(askedAtFirst).toBe(1);
    expect(node(0).count('extend')).toBe(2);
  });

  it('does not wait for the one under way where enough nodes owe no answer', async () => {
    const { environment, redlock, nodes, node, until } = setScene({ nodes: 5 });
    const lock = await until(redlock.acquire('r', ttl));
    node(0).hang();
    node(1).hang();
    node(2).refuse('extend');
    const first = reasonOf(lock.extend());
    await environment.settle();
    node(2).heal();

    await until(lock.extend(), 1);

    expect(nodes.map((each) => each.count('extend'))).toEqual([1, 1, 2, 2, 2]);
    await until(first);
  });

  it('that waits for one under way gives up at its own node timeout', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const first = reasonOf(lock.extend());
    const second = reasonOf(lock.extend());
    await environment.advance(600);
    for (const node of nodes) node.heal();

    const errors = await until(Promise.all([first, second]));

    for (const error of errors) expect(error).toBeInstanceOf(NoQuorumError);
    await environment.advance(100);
    expect(nodes.map((node) => node.count('extend'))).toEqual([1, 1, 1]);
  });

  it('three times at once on healthy nodes succeeds three times', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.delay({ answer: 5 });

    const outcomes = await until(Promise.allSettled([lock.extend(), lock.extend(), lock.extend()]));

    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
  });

  it('is ended by the end of the validity', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(validity - 100);
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const error = await rejection(lock.extend());

    expect(expectInstance(error, LockLostError).reason).toBe('expired');
    expect(environment.now() - startedAt).toBeLessThanOrEqual(101);
    expect(environment.pendingTimers).toBe(0);
  });

  it('keeps the process alive until it is over', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();

    const extension = reasonOf(lock.extend());
    const timersMeanwhile = environment.processHoldingTimers;
    await until(extension);

    expect(timersMeanwhile).toBe(1);
    expect(environment.processHoldingTimers).toBe(0);
  });

  it('is ended by a release', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.delay({ answer: 100 });
    const extension = reasonOf(lock.extend());
    await environment.advance(10);

    await until(lock.release());

    expect(expectInstance(await until(extension), LockLostError).reason).toBe('released');
    await environment.advance(500);
    expect(environment.pendingTimers).toBe(0);
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

  it('is not what ended a lock that nobody extends', async () => {
    const { environment, redlock, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl, { maxHold: 1_000 }));

    await environment.advance(ttl);

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

    expect(await until(second)).toBeInstanceOf(NoQuorumError);
  });
});

describe('a release', () => {
  it('deletes the keys on all nodes in one round', async () => {
    const { environment, redlock, nodes, owners, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(1_000);

    await until(lock.release());

    expect(await owners()).toEqual([null, null, null]);
    expect(nodes.map((node) => node.count('release'))).toEqual([1, 1, 1]);
    expect(observer.released).toHaveBeenCalledWith(lock, 1_000);
    expect(environment.pendingTimers).toBe(0);
  });

  it('that nodes keep waiting is not of the time for which the lock was held', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(1_000);
    for (const node of nodes) node.hang();

    await until(lock.release());

    expect(observer.released.mock.calls).toEqual([[lock, 1_000]]);
  });

  it('leaves no timer, also when most of the ttl is over', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await environment.advance(0.9 * ttl);

    await until(lock.release());

    expect(environment.pendingTimers).toBe(0);
  });

  it('is one, and told once, also where a node that is asked for it asks for it in turn', async () => {
    const { redlock, nodes, node, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    const asked = jest.spyOn(node(0), 'release').mockImplementationOnce((request, onAnswer) => {
      void lock.release();
      node(0).release(request, onAnswer);
    });

    await until(lock.release());

    asked.mockRestore();
    expect(nodes.map((each) => each.count('release'))).toEqual([1, 1, 1]);
    expect(observer.released).toHaveBeenCalledTimes(1);
  });

  it('ends the claim before the first byte is sent', async () => {
    const { redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();

    void lock.release();

    expect(lock.isValid).toBe(false);
    expect(lock.signal.aborted).toBe(false);
  });

  it('keeps the pace of the majority when one node hangs', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(0).hang();
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now()).toBe(startedAt);
  });

  it('is over when a quorum of nodes has answered, not before', async () => {
    const { environment, redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    node(1).delay({ answer: 50 });
    node(2).delay({ answer: 100 });
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now() - startedAt).toBe(50);
  });

  it('gives up after the node timeout when the nodes hang, and is no error', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.hang();
    const startedAt = environment.now();

    const release = lock.release();
    const timersMeanwhile = environment.processHoldingTimers;
    await until(release);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
    // Or the process might end before the keys are deleted.
    expect(timersMeanwhile).toBe(1);
  });

  it('on nodes that are down ends with their answers, and is no error', async () => {
    const { environment, redlock, nodes, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    for (const node of nodes) node.refuse();
    const startedAt = environment.now();

    await until(lock.release());

    expect(environment.now()).toBe(startedAt);
  });

  it('a second time changes nothing', async () => {
    const { redlock, node, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));

    await until(Promise.all([lock.release(), lock.release()]));
    await until(lock.release());

    expect(node(0).count('release')).toBe(1);
    expect(observer.released).toHaveBeenCalledTimes(1);
  });

  it('of an expired lock is one round, not retried for seconds', async () => {
    const { environment, redlock, nodes, observer, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    environment.block(2 * ttl);

    await until(lock.release());
    await environment.advance(60_000);

    expect(nodes.map((node) => node.count('release'))).toEqual([1, 1, 1]);
    expect(observer.lost).toHaveBeenCalledWith(lock, 'expired', 2 * ttl);
    expect(observer.released).not.toHaveBeenCalled();
  });

  it('keeps an acquisition out that comes to its node only after it', async () => {
    const { environment, redlock, node, owners, until } = setScene();
    node(2).fail('requestLost', 'acquire');
    const lock = await until(redlock.acquire('r', ttl));
    const lost = node(2).calls[0]?.request;
    await until(lock.release());

    node(2).heal();
    if (lost != null) node(2).acquire(lost, () => undefined);
    await environment.settle();

    expect(await owners()).toEqual([null, null, null]);
  });

  it('names the longest lifetime that the keys were ever given', async () => {
    const { redlock, node, until } = setScene();
    const lock = await until(redlock.acquire('r', ttl));
    await until(lock.extend(20_000));
    await until(lock.extend(5_000));

    await until(lock.release());

    const release = node(0).calls.find(({ operation }) => operation === 'release');
    expect(release?.request?.ttl).toBe(20_000);
  });
});
