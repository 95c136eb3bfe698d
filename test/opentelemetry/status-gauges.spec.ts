import { describe, expect, it } from '@jest/globals';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { getRedlockToken, RedlockModule, type RedlockService } from 'nestjs-locked';
import { RedlockTelemetryModule } from 'nestjs-locked/opentelemetry';

import { afterTest } from '../support/after-test.js';
import { startRedisServers } from '../support/redis-servers.js';
import { startPlain, threeNodes } from '../nest/support/applications.js';
import { faultyNodes } from '../nest/support/faulty-nodes.js';
import { startTelemetry, domain, values } from './telemetry-scene.js';

describe('gauges', () => {
  it('show what is held and what waits at the moment of the collection', async () => {
    const { redlock, points } = await startTelemetry();

    const lock = await redlock.acquire('a');
    const second = redlock.acquire('a', 10_000, { wait: 10_000 });
    const during = [await points('nestjs_locked.held'), await points('nestjs_locked.waiting')];
    await lock.release();
    await (await second).release();
    const after = [await points('nestjs_locked.held'), await points('nestjs_locked.waiting')];

    expect(during.map(values)).toEqual([[{ ...domain, value: 1 }], [{ ...domain, value: 1 }]]);
    expect(after.map(values)).toEqual([[{ ...domain, value: 0 }], [{ ...domain, value: 0 }]]);
  });

  it('show the state, quarantine and findings of each node', async () => {
    const [healthy, fresh, unfit] = faultyNodes();
    if (healthy === undefined || fresh === undefined || unfit === undefined) throw new Error();
    const statusOf = fresh.status.bind(fresh);
    fresh.status = () => ({ ...statusOf(), quarantineRemaining: 500 });
    const refused = { name: 'c', state: 'refused', findings: ['a replica'] } as const;
    unfit.status = () => ({ ...statusOf(), ...refused, quarantineRemaining: 500 });
    const { points } = await startTelemetry({}, [healthy, fresh, unfit]);

    const states = values(await points('nestjs_locked.node.status'));
    const findings = values(await points('nestjs_locked.node.findings'));

    expect(states).toHaveLength(18);
    expect(states.filter(({ value }) => value === 1)).toEqual(
      [
        ['a', 'up'],
        ['b', 'quarantined'],
        ['c', 'refused'],
      ].map(([name, state]) => ({
        ...domain,
        'nestjs_locked.node.name': name,
        'nestjs_locked.node.state': state,
        value: 1,
      })),
    );
    expect(findings.map(({ value }) => value)).toEqual([0, 0, 1]);
    expect(values(await points('nestjs_locked.quorum'))).toEqual([{ ...domain, value: 2 }]);
  });

  it('show the nodes after a shutdown as they were before it, not as down', async () => {
    const [server] = await startRedisServers(1);
    if (server === undefined) throw new Error('no server');
    afterTest(() => server.stop());
    const { module, points } = await startTelemetry({}, [server.url]);
    const current = async () =>
      values(await points('nestjs_locked.node.status')).filter(({ value }) => value === 1);

    const before = await current();
    await module.close();

    expect(before).toMatchObject([{ 'nestjs_locked.node.state': 'up' }]);
    expect(await current()).toEqual(before);
    expect(await points('nestjs_locked.held')).toMatchObject([{ value: 0 }]);
  });

  it('observe every lock domain of the application', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter });
    const meterProvider = new MeterProvider({ readers: [reader] });
    afterTest(() => meterProvider.shutdown());
    const module = await startPlain({
      imports: [
        RedlockModule.forRoot(threeNodes()),
        RedlockModule.forRoot(threeNodes(), { name: 'billing' }),
        RedlockTelemetryModule.forRoot({ meterProvider }),
      ],
    });
    const billing = module.get<RedlockService>(getRedlockToken('billing'));

    await billing.using('a', () => reader.forceFlush());

    const metrics = exporter.getMetrics()[0]?.scopeMetrics[0]?.metrics ?? [];
    const held = metrics.find(({ descriptor }) => descriptor.name === 'nestjs_locked.held');
    expect(held?.dataPoints.map(({ attributes, value }) => [attributes, value])).toEqual([
      [{ 'nestjs_locked.domain': 'default' }, 0],
      [{ 'nestjs_locked.domain': 'billing' }, 1],
    ]);
  });
});
