// An application whose metrics and spans a test reads.
import { expect } from '@jest/globals';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type DataPoint,
  type MetricData,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { RedlockModule, RedlockService, type NodeInput } from 'nestjs-locked';
import { RedlockTelemetryModule, type RedlockTelemetryOptions } from 'nestjs-locked/opentelemetry';
import type { FaultyNode } from 'nestjs-locked/testing';

import { afterTest } from '../support/after-test.js';
import { quick, startPlain, threeNodes } from '../nest/support/applications.js';
import { loseLock } from '../nest/support/faulty-nodes.js';
import { rejection } from '../nest/support/events.js';

/** An SDK in memory, and an application that tells it of its locks. */
export async function startTelemetry(
  options: RedlockTelemetryOptions = {},
  nodes: readonly NodeInput[] = threeNodes(),
) {
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({
    exporter: metricExporter,
    cardinalityLimits: { default: 20_000 },
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const spanExporter = new InMemorySpanExporter();
  const spanProcessors = [new SimpleSpanProcessor(spanExporter)];
  const tracerProvider = new BasicTracerProvider({ spanProcessors });
  const module = await startPlain({
    imports: [
      // In this order Nest shuts the telemetry down first.
      RedlockModule.forRoot(nodes, quick),
      RedlockTelemetryModule.forRoot({ meterProvider, tracerProvider, ...options }),
    ],
  });
  afterTest(() => meterProvider.shutdown());
  const metricsNow = async (): Promise<MetricData[]> => {
    metricExporter.reset();
    await reader.forceFlush();
    const [resourceMetrics] = metricExporter.getMetrics();
    return resourceMetrics?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
  };
  return {
    module,
    redlock: module.get(RedlockService),
    tracer: tracerProvider.getTracer('test'),
    spans: () => spanExporter.getFinishedSpans(),
    metrics: metricsNow,
    /** The data points of one metric. */
    async points<Value = number>(name: string): Promise<DataPoint<Value>[]> {
      const metric = (await metricsNow()).find(({ descriptor }) => descriptor.name === name);
      return (metric?.dataPoints ?? []) as unknown as DataPoint<Value>[];
    },
  };
}

/** Extends a lock once, and holds it until its loss is known. */
export async function extendAndLose(
  redlock: RedlockService,
  nodes: readonly FaultyNode[],
  resource: string,
): Promise<void> {
  const work = redlock.using(resource, async (lock) => {
    await lock.extend();
    await loseLock(nodes, lock);
  });
  expect(await rejection(work)).toMatchObject({ code: 'LOCK_LOST' });
}

export const domain = { 'nestjs_locked.domain': 'default' };

/** What data points have, without their times. */
export function values(points: readonly DataPoint<number>[]) {
  return points.map(({ attributes, value }) => ({ ...attributes, value }));
}
