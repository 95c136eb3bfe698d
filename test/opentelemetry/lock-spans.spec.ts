import { channel } from 'node:diagnostics_channel';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { context, diag, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import {
  LockExpiredError,
  LockTakenError,
  NoQuorumError,
  RedlockClosedError,
  RedlockService,
} from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { startModule } from '../nest/support/applications.js';
import { faultyNodes, loseLock } from '../nest/support/faulty-nodes.js';
import { rejection } from '../nest/support/events.js';
import { startTelemetry, extendAndLose, domain } from './telemetry-scene.js';

describe('spans', () => {
  const details = { resources: ['a'], votes: [] };
  const contextManager = new AsyncLocalStorageContextManager();

  beforeAll(() => {
    context.setGlobalContextManager(contextManager.enable());
  });

  afterAll(() => {
    context.disable();
    contextManager.disable();
  });

  function named(spans: readonly ReadableSpan[], name: string): ReadableSpan {
    const found = spans.filter((span) => span.name === name);
    const [span] = found;
    if (span === undefined || found.length > 1) throw new Error(`${found.length} spans ${name}`);
    return span;
  }

  const milliseconds = ([seconds, nanoseconds]: [number, number]): number =>
    seconds * 1_000 + nanoseconds / 1_000_000;

  it("of acquiring and holding are children of the caller's, also after a wait in the queue", async () => {
    const { redlock, tracer, spans } = await startTelemetry({ resourceNames: true });
    const held = await redlock.acquire('a');
    const before = spans().length;
    const parent = tracer.startSpan('request');
    const scope = trace.setSpan(context.active(), parent);
    const waiting = context.with(scope, () => redlock.using('a', { wait: 5_000 }, () => 1));
    // Somebody else's span is the active one when the queue moves on.
    const other = tracer.startSpan('another request');
    await context.with(trace.setSpan(context.active(), other), () => held.release());
    await waiting;

    const told = spans().slice(before);
    const [acquiring, ...furtherAcquiring] = told.filter(({ name }) => name === 'lock acquire');
    const holding = told.filter(
      ({ name, parentSpanContext }) =>
        name === 'lock hold' && parentSpanContext?.spanId === parent.spanContext().spanId,
    );
    expect(furtherAcquiring).toEqual([]);
    expect(acquiring?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    expect(holding).toHaveLength(1);
    const names = { ...domain, 'nestjs_locked.resource.names': ['a'] };
    expect(acquiring?.attributes).toMatchObject(names);
    expect(holding[0]?.attributes).toMatchObject(names);
  });

  it('begin with the call and end with its outcome', async () => {
    const { redlock, spans } = await startTelemetry();
    const lock = await redlock.acquire('a');
    const startedAt = Date.now();
    await rejection(redlock.acquire('a', 10_000, { wait: 50 }));
    const endedAt = Date.now();
    await lock.release();

    const refused = spans().find(
      ({ attributes }) => attributes['nestjs_locked.outcome'] === 'taken',
    );
    if (refused === undefined) throw new Error('no span');
    expect(milliseconds(refused.startTime)).toBeGreaterThanOrEqual(startedAt - 2);
    expect(milliseconds(refused.endTime)).toBeLessThanOrEqual(endedAt + 2);
    expect(milliseconds(refused.duration)).toBeGreaterThanOrEqual(49);
    expect(refused.attributes['nestjs_locked.attempts']).toBeGreaterThanOrEqual(1);
    expect(refused.attributes).toMatchObject(domain);
    expect(refused.instrumentationScope.name).toBe('nestjs-locked');
    // Contention is what locks are for.
    expect(refused.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('of holding last from the acquisition to the release, with an event for each extension', async () => {
    const { redlock, spans } = await startTelemetry();

    const startedAt = performance.now();
    const bodyTook = await redlock.using('a', async (lock) => {
      const bodyStartedAt = performance.now();
      await lock.extend();
      return performance.now() - bodyStartedAt;
    });
    const took = performance.now() - startedAt;

    const hold = named(spans(), 'lock hold');
    expect(milliseconds(hold.duration)).toBeGreaterThanOrEqual(bodyTook);
    expect(milliseconds(hold.duration)).toBeLessThanOrEqual(took);
    expect(hold.events.map(({ name }) => name)).toEqual(['extended']);
    // In seconds, of the default ttl.
    expect(hold.events[0]?.attributes?.['nestjs_locked.remaining']).toBeGreaterThan(8);
    expect(hold.events[0]?.attributes?.['nestjs_locked.remaining']).toBeLessThan(10);
    expect(hold.attributes).toEqual({
      ...domain,
      'nestjs_locked.fencing_token': expect.any(Number),
    });
  });

  it('of holding are none for a call that got no lock, also not when the application ends', async () => {
    const { module, redlock, spans } = await startTelemetry();
    const lock = await redlock.acquire('a');

    await rejection(redlock.acquire('a', 10_000, { wait: 0 }));
    await lock.release();
    await module.close();

    expect(
      spans()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['lock acquire', 'lock acquire', 'lock hold']);
  });

  it('of holding are none for a lock that was acquired before anybody listened', async () => {
    const nodes = faultyNodes();
    const other = await startModule({}, {}, nodes);
    const service = other.get(RedlockService);
    const [released, lost] = [await service.acquire('a'), await service.acquire('b')];
    const { redlock, spans } = await startTelemetry();

    await lost.extend();
    await loseLock(nodes, lost);
    await released.release();
    await redlock.using('c', () => 1);

    expect(spans().map(({ name }) => name)).toEqual(['lock acquire', 'lock hold']);
  });

  it('end once, and nothing is said to the diag logger', async () => {
    const said: unknown[][] = [];
    const say = (...line: unknown[]): void => void said.push(line);
    const logger = { error: say, warn: say, info: say, debug: () => undefined, verbose: say };
    diag.setLogger(logger, { suppressOverrideMessage: true });
    afterTest(() => diag.disable());
    const { module, redlock } = await startTelemetry();

    await redlock.using('a', (lock) => lock.extend());
    await module.close();

    expect(said).toEqual([]);
  });

  it('of a lost lock and of a call without quorum are errors by their code', async () => {
    const nodes = faultyNodes();
    const { redlock, spans } = await startTelemetry({}, nodes);

    await extendAndLose(redlock, nodes, 'secret');
    for (const node of nodes) node.refuse();
    await rejection(redlock.acquire('secret', 10_000, { wait: 0 }));

    const failed = spans().filter(({ status }) => status.code === SpanStatusCode.ERROR);
    expect(failed.map(({ name, attributes }) => [name, attributes['error.type']])).toEqual([
      ['lock hold', 'LOCK_LOST'],
      ['lock acquire', 'NO_QUORUM'],
    ]);
    expect(failed[0]?.attributes['nestjs_locked.loss.reason']).toBe('revoked');
    const told = spans().map(({ attributes, status, events }) => ({ attributes, status, events }));
    expect(JSON.stringify(told)).not.toContain('secret');
  });

  it.each([
    [new LockTakenError('taken', { ...details, retryAfter: null }), undefined],
    [new NoQuorumError('no quorum', details), 'NO_QUORUM'],
    [new LockExpiredError('expired', details), 'LOCK_EXPIRED'],
    [new RedlockClosedError('closed', details), 'REDLOCK_CLOSED'],
  ])(
    'of a call that ended with %p is an error unless others hold the lock',
    async (error, code) => {
      const { spans } = await startTelemetry();
      const call = { redlock: 'default', resources: ['a'], waited: 1, attempts: 1 };
      const outcome = { error, isAborted: false, ownerId: null, fencingToken: null };

      channel('nestjs-locked:acquire').publish({ ...call, ...outcome });

      const [span] = spans();
      expect(span?.attributes['error.type']).toBe(code);
      expect(span?.status.message).toBe(code);
    },
  );
});
