// Calls whose callers hold locks, behind calls for several resources that wait for other processes.
import { describe, expect, it } from '@jest/globals';

import { enter, ttl } from './hand-over-scene.js';
import { setScene } from './scene.js';

/** Another process holds `a`, and a caller of this one `b`; a call of this one waits for a and c. */
async function setHeld() {
  const scene = setScene();
  const { environment, otherProcess, redlock, until } = scene;
  const a = await until(otherProcess().acquire('a', ttl));
  await until(redlock.acquire('b', ttl));
  const both = enter(redlock, ['a', 'c']);
  await environment.advance(10);
  return { ...scene, a, both };
}

describe('a call inside another lock', () => {
  it('gets what is free before a call that has tried in vain: its caller may be waited for', async () => {
    const { redlock, until } = await setHeld();

    const inside = await until(redlock.acquire('c', ttl, {}, ['b']), 200);

    expect(inside.isValid).toBe(true);
  });

  it('is followed by that call, which asks no node before it is its turn again', async () => {
    const { a, both, environment, node, redlock, until } = await setHeld();
    const inside = await until(redlock.acquire('c', ttl, {}, ['b']), 200);
    const asked = node(0).count('acquire');

    await environment.advance(500);
    const askedInVain = node(0).count('acquire') - asked;
    await until(a.release());
    await until(inside.release());

    expect(askedInVain).toBe(0);
    expect((await until(both, 100)).isValid).toBe(true);
  });

  it('hands its lock over to no call that it has passed and that asks the nodes again', async () => {
    const { a, both, environment, redlock, until } = await setHeld();
    let end = (): void => undefined;
    const isOver = new Promise<void>((resolve) => (end = resolve));
    const inside = redlock.using(['a', 'c'], { ttl }, () => isOver, ['b']);
    await environment.advance(200);
    await until(a.release());
    await environment.advance(5);

    end();
    await until(inside, 10);

    expect((await until(both, 100)).isValid).toBe(true);
  });
});
