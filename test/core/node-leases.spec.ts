import { describe, expect, it } from '@jest/globals';

import { hasSlept, NodeLeases, RoundTerms } from '../../lib/core/node-leases.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

describe('the lease of a node', () => {
  const start = (startedAt: number, clockGapMax = 0) => ({
    ttl: 1_000,
    startedAt,
    until: startedAt + 988,
    clockGapMax,
  });

  it('only grows, in whatever order the answers arrive', () => {
    const leases = new NodeLeases([null], 1);

    leases.grant(0, start(500));
    leases.grant(0, start(100));

    expect(leases.validUntil).toBe(500 + 988);
  });

  it('that was revoked counts again only for a round begun after that was known', () => {
    const leases = new NodeLeases([null], 1);
    leases.grant(0, start(100));

    leases.revoke(0, 400);
    leases.grant(0, start(400));
    const validUntilRevoked = leases.validUntil;
    leases.grant(0, start(401));

    expect(validUntilRevoked).toBe(-Infinity);
    expect(leases.validUntil).toBe(401 + 988);
  });

  it('outside the quorum does not decide how far the clocks had drifted apart', () => {
    const leases = new NodeLeases([null, null, null], 2);

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

  it('allow less, never more, where the process is paused between its two clocks', () => {
    const environment = new SimulatedEnvironment();
    let pause = 600;
    const read = (clock: () => number) => () => {
      const time = clock();
      environment.block(pause);
      pause = 0;
      return time;
    };
    const paused = Object.assign(Object.create(environment) as SimulatedEnvironment, {
      now: read(() => environment.now()),
      wallClock: read(() => environment.wallClock()),
    });

    const { clockGapMax } = new RoundTerms(paused, 10_000, 0.01);

    environment.suspend(500);
    expect(hasSlept(environment, environment.now(), clockGapMax)).toBe(true);
  });
});
