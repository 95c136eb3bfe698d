import { describe, expect, it } from '@jest/globals';

import { ReconnectDelay } from '../../lib/nodes/reconnect-delay.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

/** Delays of connections that are not made, with a die that always shows `random`. */
function start(random = 0.5): { delay: ReconnectDelay; environment: SimulatedEnvironment } {
  const environment = new SimulatedEnvironment();
  environment.random = () => random;
  return { delay: new ReconnectDelay(environment), environment };
}

function next(delay: ReconnectDelay, count: number): number[] {
  return Array.from({ length: count }, () => delay.next());
}

describe('the delay before a server is connected anew', () => {
  it('doubles with each failure, from 50 ms to 2 s', () => {
    const { delay } = start();

    expect(next(delay, 8)).toEqual([50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
  });

  it('is half as much more or less, by chance', () => {
    const delays = [0, 0.999].map((random) => start(random).delay.next());

    expect(delays).toEqual([25, 74.95]);
  });

  it('begins anew after a connection that has lasted for 2 s, and doubles again', async () => {
    const { delay, environment } = start();
    next(delay, 5);
    delay.connected();

    await environment.advance(2_000);

    expect(next(delay, 4)).toEqual([50, 100, 200, 400]);
  });

  it('goes on where it was after a connection that was short', async () => {
    const { delay, environment } = start();
    next(delay, 2);
    delay.connected();

    await environment.advance(1_999);
    const soon = delay.next();
    await environment.advance(60_000);

    expect([soon, delay.next()]).toEqual([200, 400]);
  });
});
