import { describe, expect, it } from '@jest/globals';
import { diag, DiagLogLevel, SpanStatusCode } from '@opentelemetry/api';
import { DataPointType, type Histogram } from '@opentelemetry/sdk-metrics';
import { NoQuorumError } from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { faultyNodes } from '../nest/support/faulty-nodes.js';
import { aborted, rejection, turn } from '../nest/support/events.js';
import { startTelemetry, extendAndLose, domain, values } from './telemetry-scene.js';

const granted = { ...domain, 'nestjs_locked.outcome': 'granted' };

const taken = { ...domain, 'nestjs_locked.outcome': 'taken' };

describe('metrics', () => {
  it('count acquisitions by outcome', async () => {
    const nodes = faultyNodes();
    const { redlock, points } = await startTelemetry({}, nodes);
    const abort = new AbortController();

    const lock = await redlock.acquire('a');
    await redlock.tryAcquire('a');
    await redlock.tryAcquire('a');
    const waiting = rejection(redlock.acquire('a', 10_000, { signal: abort.signal }));
    abort.abort();
    await waiting;
    await lock.release();
    for (const node of nodes) node.refuse();
    await rejection(redlock.acquire('b', 10_000, { wait: 0 }));

    expect(values(await points('nestjs_locked.acquisitions'))).toEqual([
      { ...domain, 'nestjs_locked.outcome': 'no_quorum', value: 1 },
      { ...domain, 'nestjs_locked.outcome': 'expired', value: 0 },
      { ...granted, value: 1 },
      { ...taken, value: 2 },
      { ...domain, 'nestjs_locked.outcome': 'aborted', value: 1 },
    ]);
  });

  it('count a call that was given up as that, also for the error of another lock', async () => {
    const { redlock, points, spans } = await startTelemetry();
    const signal = AbortSignal.abort(new NoQuorumError('no quorum', { resources: ['b'] }));

    const error = await rejection(redlock.acquire('a', 10_000, { signal }));

    expect(error).toBe(signal.reason);
    expect(values(await points('nestjs_locked.acquisitions'))).toEqual([
      { ...domain, 'nestjs_locked.outcome': 'aborted', value: 1 },
    ]);
    expect(spans()[0]?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('count the calls that were still waiting at the shutdown', async () => {
    const { module, redlock, points } = await startTelemetry();
    const lock = await redlock.acquire('a');
    const waiting = rejection(redlock.acquire('a', 10_000, { wait: 60_000 }));
    while ((await redlock.status()).waiting === 0) await turn();

    const closing = module.close();
    await waiting;
    await lock.release();
    await closing;

    expect(values(await points('nestjs_locked.acquisitions'))).toContainEqual({
      ...domain,
      'nestjs_locked.outcome': 'closed',
      value: 1,
    });
  });

  it('measure waiting, holding and rounds in seconds', async () => {
    const { redlock, metrics } = await startTelemetry();

    const startedAt = performance.now();
    const lock = await redlock.acquire('a');
    await rejection(redlock.acquire('a', 10_000, { wait: 50 }));
    await lock.extend();
    await lock.release();
    const took = (performance.now() - startedAt) / 1_000;

    const histograms = (await metrics()).flatMap((metric) =>
      metric.dataPointType === DataPointType.HISTOGRAM ? [metric] : [],
    );
    const found = histograms.flatMap(({ descriptor: { name, unit }, dataPoints }) =>
      dataPoints.map(({ attributes, value }) => ({ name, unit, attributes, value })),
    );
    const sumOf = (name: string, outcome: string): number =>
      found.find(
        ({ name: its, attributes }) =>
          its === name && attributes['nestjs_locked.outcome'] === outcome,
      )?.value.sum ?? NaN;
    expect(new Set(found.map(({ name }) => name))).toEqual(
      new Set(['wait', 'round', 'hold'].map((name) => `nestjs_locked.${name}.duration`)),
    );
    expect(new Set(found.map(({ unit }) => unit))).toEqual(new Set(['s']));
    expect(sumOf('nestjs_locked.wait.duration', 'taken')).toBeGreaterThanOrEqual(0.05);
    expect(sumOf('nestjs_locked.wait.duration', 'taken')).toBeLessThanOrEqual(took);
    expect(sumOf('nestjs_locked.hold.duration', 'released')).toBeGreaterThanOrEqual(0.05);
    expect(sumOf('nestjs_locked.hold.duration', 'released')).toBeLessThanOrEqual(took);
    expect(sumOf('nestjs_locked.round.duration', 'granted')).toBeGreaterThan(0);
    expect(sumOf('nestjs_locked.round.duration', 'granted')).toBeLessThanOrEqual(took);
    const rounds = found.filter(({ name }) => name === 'nestjs_locked.round.duration');
    const asked = (operation: string) => ({ 'nestjs_locked.operation': operation });
    expect(rounds.map(({ attributes }) => attributes)).toEqual([
      { ...granted, ...asked('acquire') },
      { ...domain, 'nestjs_locked.outcome': 'refused', ...asked('acquire') },
      { ...granted, ...asked('extend') },
    ]);
  });

  it('have buckets from the shortest to the longest, each up to five times the last', async () => {
    const { redlock, points } = await startTelemetry();
    await redlock.using('a', () => 1);
    const boundariesOf = async (what: string): Promise<readonly number[]> => {
      const [point] = await points<Histogram>(`nestjs_locked.${what}.duration`);
      return point?.value.buckets.boundaries ?? [];
    };

    const found = [
      await boundariesOf('wait'),
      await boundariesOf('hold'),
      await boundariesOf('round'),
    ];

    const ends = found.map((bounds) => [bounds[0], bounds.at(-1)].join(' to '));
    expect(ends).toEqual(['0.001 to 60', '0.001 to 3600', '0.00025 to 1']);
    for (const bounds of found) {
      const steps = bounds.slice(1).map((bound, index) => bound / (bounds[index] ?? NaN));
      expect(Math.max(...steps)).toBeLessThanOrEqual(5);
    }
  });

  it('count extensions, and losses by reason', async () => {
    const nodes = faultyNodes();
    const { redlock, points } = await startTelemetry({}, nodes);

    await extendAndLose(redlock, nodes, 'a');

    const reason = { ...domain, 'nestjs_locked.loss.reason': 'revoked' };
    expect(values(await points('nestjs_locked.losses'))).toContainEqual({ ...reason, value: 1 });
    const [extensions] = await points('nestjs_locked.extensions');
    expect(extensions?.attributes).toEqual(domain);
    expect(extensions?.value).toBeGreaterThanOrEqual(1);
    const holds = await points<Histogram>('nestjs_locked.hold.duration');
    expect(holds.map(({ attributes }) => attributes['nestjs_locked.outcome'])).toEqual(['lost']);
    expect(holds[0]?.value.sum).toBeGreaterThan(0);
  });

  it('count losses from 0 as soon as a class is locked: the first one is an increase', async () => {
    const resourceClass = (resource: string) => resource.split(':')[0];
    const nodes = faultyNodes();
    const { redlock, points } = await startTelemetry({ resourceClass }, nodes);

    await redlock.using('sku:apple', () => 1);
    await redlock.using('sku:pear', () => 1);
    const before = await points('nestjs_locked.losses');
    await extendAndLose(redlock, nodes, 'sku:apple');
    const after = await points('nestjs_locked.losses');

    const sku = { ...domain, 'nestjs_locked.resource.class': 'sku' };
    const reasons = ['expired', 'suspended', 'revoked', 'max_hold', 'closed'];
    const counted = (reason: string, value: number) => {
      return { ...sku, 'nestjs_locked.loss.reason': reason, value };
    };
    expect(values(before)).toEqual(reasons.map((reason) => counted(reason, 0)));
    expect(values(after)).toEqual(
      reasons.map((reason) => counted(reason, reason === 'revoked' ? 1 : 0)),
    );
  });

  it('spell the reason of a loss as all other values, and so do spans', async () => {
    const { redlock, points, spans } = await startTelemetry();
    const options = { ttl: 200, maxHold: 100 };

    await rejection(redlock.using('a', options, (lock) => aborted(lock.signal)));

    const lost = (await points('nestjs_locked.losses')).filter(({ value }) => value > 0);
    const reason = { 'nestjs_locked.loss.reason': 'max_hold' };
    expect(values(lost)).toEqual([{ ...domain, ...reason, value: 1 }]);
    expect(spans().at(-1)?.attributes).toMatchObject(reason);
  });

  it('count each extension once, and hold releases and losses apart, by domain', async () => {
    const nodes = faultyNodes();
    const { redlock, points } = await startTelemetry({}, nodes);

    await redlock.using('a', () => 1);
    await extendAndLose(redlock, nodes, 'b');

    const extensions = values(await points('nestjs_locked.extensions'));
    const holds = await points<Histogram>('nestjs_locked.hold.duration');
    expect(extensions).toEqual([{ ...domain, value: 1 }]);
    expect(holds.map(({ attributes, value }) => [attributes, value.count])).toEqual([
      [{ ...domain, 'nestjs_locked.outcome': 'released' }, 1],
      [{ ...domain, 'nestjs_locked.outcome': 'lost' }, 1],
    ]);
  });

  it('count no_quorum and expired from 0 as well, which are worth an alert', async () => {
    const { redlock, points } = await startTelemetry();

    await redlock.using('a', () => 1);

    expect(values(await points('nestjs_locked.acquisitions'))).toEqual([
      { ...domain, 'nestjs_locked.outcome': 'no_quorum', value: 0 },
      { ...domain, 'nestjs_locked.outcome': 'expired', value: 0 },
      { ...granted, value: 1 },
    ]);
  });

  it('begin the losses of 2,000 classes, and of no more: classes without end fill no memory', async () => {
    const { redlock, points } = await startTelemetry({ resourceClass: (resource) => resource });

    for (let order = 0; order < 2_001; order += 1) await redlock.using(`order:${order}`, () => 1);
    const losses = await points('nestjs_locked.losses');

    const classes = losses.map(({ attributes }) => attributes['nestjs_locked.resource.class']);
    expect(new Set(classes).size).toBe(2_000);
  });

  it('never name a resource, an owner or a token', async () => {
    const nodes = faultyNodes();
    const { redlock, metrics } = await startTelemetry({ resourceNames: true }, nodes);

    const { ownerId, fencingToken } = await redlock.using('secret:4711', async (lock) => {
      await redlock.tryAcquire('secret:4711').catch(() => null);
      await lock.extend();
      return lock;
    });
    await extendAndLose(redlock, nodes, 'secret:4712');

    const told = JSON.stringify(await metrics());
    expect(told).toContain('nestjs_locked.losses');
    for (const secret of ['secret', ownerId, String(fencingToken)]) {
      expect(told).not.toContain(secret);
    }
  });

  it('name the class of a resource by the hook, and joined those of several', async () => {
    const resourceClass = (resource: string) => resource.split(' ')[1];
    const { redlock, points } = await startTelemetry({ resourceClass });

    await redlock.using(['1 sku', '2 sku', '3 account'], () => 1);
    await redlock.using(['1 sku', 'x', 'nameless '], () => 1);
    await redlock.using('x', () => 1);

    const classes = (await points<Histogram>('nestjs_locked.wait.duration')).map(
      ({ attributes }) => attributes['nestjs_locked.resource.class'],
    );
    expect(classes).toEqual(['account+sku', 'sku', undefined]);
  });

  it('ask the hook once for each thing that happens to a lock, for spans as well', async () => {
    const asked: string[] = [];
    const resourceClass = (resource: string) => {
      asked.push(resource);
      return undefined;
    };
    const { redlock } = await startTelemetry({ resourceClass });

    await redlock.using('a', (lock) => lock.extend());

    // Acquired, extended and released.
    expect(asked).toEqual(['a', 'a', 'a']);
  });

  it.each<[string, () => unknown, string]>([
    [
      'throws',
      () => {
        throw new Error('no such class');
      },
      'no such class',
    ],
    ['is async', async () => 'sku', 'to be a string or undefined, got an object'],
    ['gives a number', () => 5, 'to be a string or undefined, got 5'],
  ])(
    'go on without a class where the hook %s, and say so to the diag logger',
    async (_name, hook, reason) => {
      const errors: unknown[][] = [];
      const silent = () => undefined;
      const error = (...line: unknown[]): void => void errors.push(line);
      const logger = { error, warn: silent, info: silent, debug: silent, verbose: silent };
      diag.setLogger(logger, { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true });
      afterTest(async () => diag.disable());
      const resourceClass = hook as () => string;
      const { redlock, points } = await startTelemetry({ resourceClass });

      const result = await redlock.using('a', () => 'done');

      expect(result).toBe('done');
      expect(values(await points('nestjs_locked.acquisitions'))).toContainEqual({
        ...granted,
        value: 1,
      });
      expect(String(errors[0])).toContain(reason);
    },
  );
});
