// What the log says of calls that find no quorum.
import { describe, expect, it } from '@jest/globals';
import { NoQuorumError } from 'nestjs-locked';

import { Redlock } from '../../lib/core/redlock.js';
import { createObserver } from '../../lib/nest/telemetry.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { Log, startPlain } from './support/applications.js';
import { faultyNodes } from './support/faulty-nodes.js';
import { rejection, turn } from './support/events.js';

describe('the log of calls that find no quorum', () => {
  it('tells once a minute of them, with what each node says, and no resource', async () => {
    const log = new Log();
    // By its caller, for the error of another lock.
    const givenUp = AbortSignal.abort(new NoQuorumError('no quorum', { resources: ['b'] }));
    const environment = new SimulatedEnvironment();
    const nodes = faultyNodes();
    for (const node of nodes.slice(1)) node.refuse();
    await startPlain({}, log);
    const observer = createObserver('billing', environment);
    const redlock = new Redlock(nodes, {}, { observer });
    const call = (): Promise<unknown> => rejection(redlock.acquire('user:ann', 1_000, { wait: 0 }));

    await rejection(redlock.acquire('a', 1_000, { signal: givenUp }));
    await call();
    await call();
    await environment.advance(59_999);
    await call();
    await environment.advance(1);
    await call();
    await call();
    await environment.advance(60_000);
    await call();
    await environment.advance(60_000);
    await call();

    const lines = log.lines.filter(([, , context]) => context === 'Redlock');
    expect(lines.map(([level]) => level)).toEqual(['warn', 'warn', 'warn', 'warn']);
    const told = lines.map(([, text]) => String(text));
    expect(told[0]).toMatch(/^\[billing\] .*no quorum.*b failed .*ERRORS\.md#no-quorum/);
    expect(told[0]).not.toMatch(/user:ann/);
    const more = told.map((text) => /(\d+) more found none in the minute after/.exec(text)?.[1]);
    expect(more).toEqual([undefined, '2', '1', undefined]);
  });

  it('tells of it after the call, so that a logger that throws changes no error', async () => {
    const order: string[] = [];
    await startPlain({}, Object.assign(new Log(), { warn: () => void order.push('log') }));
    const observer = createObserver('default', new SimulatedEnvironment());

    observer.refused(['a'], new NoQuorumError('no quorum', { resources: ['a'] }), 1, 1, false);
    order.push('call');
    await turn();

    expect(order).toEqual(['call', 'log']);
  });
});
