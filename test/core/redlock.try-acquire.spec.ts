import { describe, expect, it } from '@jest/globals';

import { LockTakenError, NoQuorumError } from '../../lib/core/errors.js';
import { farProcess, setScene } from './scene.js';

const ttl = 10_000;

describe('tryAcquire', () => {
  it('gives a lock, or null when others hold it', async () => {
    const { redlock, until } = setScene();

    const lock = await until(redlock.tryAcquire('r', ttl));
    const none = await until(redlock.tryAcquire('r', ttl));

    expect(lock?.isValid).toBe(true);
    expect(none).toBeNull();
  });

  it("throws the signal's reason also where that is another lock's being taken", async () => {
    const { redlock, until, rejection } = setScene();
    await until(redlock.acquire('other'));
    const reason = await rejection(redlock.acquire('other', ttl, { wait: 0 }));
    const controller = new AbortController();

    const call = rejection(redlock.tryAcquire('r', ttl, { signal: controller.signal }));
    controller.abort(reason);

    expect(reason).toBeInstanceOf(LockTakenError);
    expect(await call).toBe(reason);
  });

  it('takes options as acquire does', async () => {
    const { environment, redlock, until } = setScene();
    const lock = await until(redlock.tryAcquire('r', ttl, { watchdog: true }));

    await environment.advance(2 * ttl);

    expect(lock?.isValid).toBe(true);
  });

  it('refuses a signal in place of the options', async () => {
    const { redlock, rejection } = setScene();

    const error = await rejection(
      redlock.tryAcquire('r', ttl, new AbortController().signal as object),
    );

    expect(String(error)).toMatch(
      /^TypeError: Expected only options of AcquireOptions \(.*\), got "/,
    );
  });

  it('throws at once when there is no quorum', async () => {
    const { environment, redlock, nodes, rejection } = setScene();
    for (const node of nodes) node.refuse();
    const startedAt = environment.now();

    const error = await rejection(redlock.tryAcquire('r', ttl));

    expect(error).toBeInstanceOf(NoQuorumError);
    expect(environment.now()).toBe(startedAt);
  });

  it('lets other processes go first at times, also right after a release', async () => {
    const scene = setScene();
    const { environment, redlock: other, until } = scene;
    const { redlock } = farProcess(scene, () => 0.5);
    const rest = (): Promise<void> => new Promise((resolve) => environment.schedule(5, resolve));
    let turns = 0;
    let hasEnded = false;
    const tryAgain = async (): Promise<void> => {
      while (!hasEnded) {
        const lock = await redlock.tryAcquire('r', ttl);
        await rest();
        // The next attempt is in the same tick.
        void lock?.release();
      }
    };
    const wait = async (): Promise<void> => {
      while (!hasEnded) {
        await other.using('r', { wait: 60_000 }, rest);
        turns += 1;
      }
    };

    const first = tryAgain();
    await environment.advance(2);
    const second = wait();
    await environment.advance(2_000);
    hasEnded = true;
    await until(Promise.all([first, second]));

    expect(turns).toBeGreaterThan(20);
  });
});
