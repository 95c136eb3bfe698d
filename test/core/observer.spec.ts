// What an observer is told of rounds. What it is told of locks stands with their tests.
import { describe, expect, it } from '@jest/globals';

import { setScene } from './scene.js';

describe('a round', () => {
  it('is told of with the time that its quorum took, not its slowest node', async () => {
    const { redlock, observer, nodes, node, until } = setScene();
    for (const each of nodes) each.delay({ request: 3, answer: 4 });
    node(2).delay({ request: 40, answer: 40 });

    const lock = await until(redlock.acquire('r'));
    await until(lock.extend());

    expect(observer.roundDecided.mock.calls).toEqual([
      ['acquire', ['r'], 7, true],
      ['extend', ['r'], 7, true],
    ]);
  });

  it('that no quorum granted is told of as such', async () => {
    const { redlock, observer, nodes, until, rejection } = setScene();
    const lock = await until(redlock.acquire('r'));
    for (const node of nodes) node.refuse();

    await rejection(lock.extend());
    await rejection(redlock.acquire('other', 10_000, { wait: 0 }));

    expect(observer.extended).not.toHaveBeenCalled();
    expect(observer.roundDecided.mock.calls.slice(1)).toEqual([
      ['extend', ['r'], 0, false],
      ['acquire', ['other'], 0, false],
    ]);
  });

  it('that was granted is settled before it is told of: giving up then frees no lock', async () => {
    const { redlock, observer, otherProcess, until } = setScene();
    const controller = new AbortController();
    observer.roundDecided.mockImplementation(() => controller.abort());

    const lock = await until(redlock.acquire('r', 10_000, { signal: controller.signal }));

    expect(lock.isValid).toBe(true);
    expect(await until(otherProcess().tryAcquire('r'))).toBeNull();
  });

  it('that would ask nobody, for all nodes owe an answer, is none', async () => {
    const { environment, redlock, observer, nodes, until } = setScene();
    await until(redlock.acquire('r', 10_000, { watchdog: true }));
    observer.roundDecided.mockClear();
    for (const node of nodes) node.hang();

    await environment.advance(8_000);

    expect(observer.roundDecided).not.toHaveBeenCalled();
  });

  it('that its caller broke off is not told of', async () => {
    const { environment, redlock, observer, nodes, until, rejection } = setScene();
    const lock = await until(redlock.acquire('r'));
    observer.roundDecided.mockClear();
    for (const node of nodes) node.hang();
    const abort = new AbortController();
    const given = rejection(redlock.acquire('other', 10_000, { signal: abort.signal }));
    const extension = rejection(lock.extend());
    await environment.advance(1);

    abort.abort();
    void lock.release();

    await Promise.all([given, extension]);
    expect(observer.roundDecided).not.toHaveBeenCalled();
  });
});
