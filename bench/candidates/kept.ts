import type { Kept } from './candidate.js';

/**
 * Turns a library's `using`, which holds a lock while a routine runs, into a lock that is held
 * until it is released.
 */
export function keepWhileRunning(
  using: (routine: (signal: AbortSignal) => Promise<void>) => Promise<unknown>,
): Promise<Kept> {
  return new Promise((resolve, reject) => {
    const ended = using(
      (signal) =>
        new Promise<void>((end) => {
          resolve({
            isLost: () => signal.aborted,
            release: () => {
              end();
              return ended;
            },
          });
        }),
    );
    ended.catch(reject);
  });
}
