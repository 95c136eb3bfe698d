// A call holds a lock, and others of its process queue for it.
import { setScene } from './scene.js';
import type { Lock } from '../../lib/core/lock.js';
import type { AcquireOptions, RedlockOptions, UsingOptions } from '../../lib/core/options.js';
import type { Redlock } from '../../lib/core/redlock.js';

/** In ms, of each call that names no other. */
export const ttl = 10_000;

/** The call of `first` holds `resource`, and that of `next` waits for it, as those that `queue`. */
export async function setQueue(
  options: RedlockOptions = {},
  resource: string | string[] = 'r',
  length = ttl,
) {
  const scene = setScene({ options });
  for (const node of scene.nodes) node.delay({ request: 0.2, answer: 0.2 });
  const { redlock, until } = scene;
  const queue = (ownLength = length, given: AcquireOptions = {}): Promise<Lock> =>
    enter(redlock, resource, { ttl: ownLength, ...given });
  // What is acquired while nobody is behind has no block of tokens: the second is the first that has.
  const alone = await until(queue());
  const second = queue();
  const third = queue();
  await until(alone.release());
  const first = await until(second);
  // All nodes have answered.
  await scene.environment.advance(1);
  for (const node of scene.nodes) node.calls.length = 0;
  return { ...scene, first, next: third, queue };
}

/** A call with a body, which ends when its lock is released; gives that. */
export function enter(
  redlock: Redlock,
  resource: string | string[],
  options: UsingOptions = { ttl },
): Promise<Lock> {
  return new Promise((resolve, reject) => {
    const body = (lock: Lock): Promise<void> => {
      resolve(lock);
      return new Promise(() => undefined);
    };
    redlock.using(resource, options, body).catch(reject);
  });
}
