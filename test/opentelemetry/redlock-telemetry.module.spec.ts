import { hasSubscribers } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it, jest } from '@jest/globals';
import {
  Injectable,
  type DynamicModule,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ValueType } from '@opentelemetry/api';
import {
  DataPointType,
  type Histogram,
  type MetricData,
  type MetricDescriptor,
} from '@opentelemetry/sdk-metrics';
import { RedlockModule, RedlockService } from 'nestjs-locked';
import { RedlockTelemetryModule } from 'nestjs-locked/opentelemetry';

import { Redlock } from '../../lib/core/redlock.js';
import { afterTest } from '../support/after-test.js';
import { Log, quick, startPlain, threeNodes } from '../nest/support/applications.js';
import { faultyNodes } from '../nest/support/faulty-nodes.js';
import { Gate, rejection, thrown } from '../nest/support/events.js';
import { startTelemetry, extendAndLose } from './telemetry-scene.js';

describe('the guide', () => {
  it('lists every metric with its kind and unit, and no other', async () => {
    const nodes = faultyNodes();
    const { redlock, metrics } = await startTelemetry({}, nodes);
    await extendAndLose(redlock, nodes, 'a');

    const guide = readFileSync(
      join(import.meta.dirname, '../../docs/HEALTH-AND-METRICS.md'),
      'utf8',
    );
    const listed = [
      ...guide.matchAll(/^\| `(nestjs_locked\.[\w.]+)` \| ([\w-]+(?: counter)?), `(.*?)`/gm),
    ].map(([, name, kind, unit]) => [name, kind, unit]);
    const found = await metrics();
    const told = found.map((metric) => [
      metric.descriptor.name,
      kindOf(metric),
      metric.descriptor.unit,
    ]);

    expect(listed.sort()).toEqual(told.sort());
    const descriptors = found.map(({ descriptor }) => descriptor);
    expect(descriptors.filter(({ description }) => description === '')).toEqual([]);
    const countsInFractions = ({ unit, valueType }: MetricDescriptor): boolean =>
      unit !== 's' && valueType !== ValueType.INT;
    expect(descriptors.filter(countsInFractions)).toEqual([]);
  });
});

function kindOf(metric: MetricData): string {
  if (metric.dataPointType === DataPointType.HISTOGRAM) return 'histogram';
  if (metric.dataPointType !== DataPointType.SUM) return 'gauge';
  return metric.isMonotonic ? 'counter' : 'up-down counter';
}

describe('RedlockTelemetryModule', () => {
  const channels = ['acquire', 'extend', 'release', 'lost', 'round'];
  const isHeard = () => channels.map((name) => hasSubscribers(`nestjs-locked:${name}`));

  it('hears the channels while the application runs, and of locks that its shutdown ends', async () => {
    const { module, redlock, points } = await startTelemetry();
    const gate = new Gate();
    const started = new Gate();
    const work = redlock.using('a', async () => {
      started.open();
      await gate.passed;
    });
    await started.passed;

    const during = isHeard();
    const heldDuring = await points('nestjs_locked.held');
    const closed = module.close();
    setImmediate(() => gate.open());
    await Promise.all([work, closed]);

    expect(during).toEqual(channels.map(() => true));
    expect(isHeard()).toEqual(channels.map(() => false));
    const holds = await points<Histogram>('nestjs_locked.hold.duration');
    expect(holds.map(({ attributes }) => attributes['nestjs_locked.outcome'])).toEqual([
      'released',
    ]);
    expect(heldDuring).toMatchObject([{ value: 1 }]);
    expect(await points('nestjs_locked.held')).toMatchObject([{ value: 0 }]);
  });

  it('listens without forRoot too, as modules do that have only defaults', async () => {
    const imports = [RedlockModule.forRoot(threeNodes(), quick), RedlockTelemetryModule];
    const module = await startPlain({ imports });
    const during = isHeard();
    await module.close();

    expect(during).toEqual(channels.map(() => true));
    expect(isHeard()).toEqual(channels.map(() => false));
  });

  it('asks for the status once more after the end of the application, and never again', async () => {
    const { module, metrics } = await startTelemetry();
    const status = jest.spyOn(Redlock.prototype, 'status');
    afterTest(() => status.mockRestore());
    await module.close();

    await metrics();
    const once = status.mock.calls.length;
    await metrics();
    await metrics();

    expect([once, status.mock.calls.length]).toEqual([1, 1]);
  });

  it.each([
    ['a module', false],
    ['a global module', true],
  ])('leaves the locks to %s that still needs them when it shuts down', async (_name, global) => {
    const gate = new Gate();
    const seen: unknown[] = [];
    @Injectable()
    class Loop implements OnApplicationShutdown {
      readonly redlock: RedlockService;
      constructor(redlock: RedlockService) {
        this.redlock = redlock;
      }

      run(): Promise<void> {
        return this.redlock.using('loop', async (lock) => {
          await gate.passed;
          seen.push(lock.isValid);
        });
      }

      async onApplicationShutdown(): Promise<void> {
        gate.open();
        seen.push(await this.redlock.using('flush', () => 'flushed'));
      }
    }
    class Jobs {}
    const module = await startPlain({
      imports: [
        RedlockModule.forRoot(threeNodes(), { ...quick, shutdownTimeout: 20 }),
        { module: Jobs, global, providers: [Loop] },
        RedlockTelemetryModule.forRoot(),
      ],
    });
    const work = module.get(Loop, { strict: false }).run();

    await Promise.all([work, module.close()]);

    expect(seen).toEqual([true, 'flushed']);
    expect(isHeard()).toEqual(channels.map(() => false));
  });

  it.each([
    ['a module far from the root', false],
    ['a global module', true],
  ])('hears of the locks that %s takes when it is initialised', async (_name, global) => {
    const heard: unknown[] = [];
    @Injectable()
    class Migrations implements OnModuleInit {
      readonly redlock: RedlockService;
      constructor(redlock: RedlockService) {
        this.redlock = redlock;
      }

      onModuleInit(): Promise<void> {
        return this.redlock.using('migrations', () => void heard.push(...isHeard()));
      }
    }
    class Database {}
    class Feature {}
    const database = { module: Database, global, providers: [Migrations] };
    await startPlain({
      imports: [
        { module: Feature, imports: [database] },
        RedlockModule.forRoot(threeNodes(), quick),
        RedlockTelemetryModule.forRoot(),
      ],
    });

    expect(heard).toEqual(channels.map(() => true));
  });

  it('imported twice ends the start, as each lock would be counted twice', async () => {
    class Feature {}
    const imports = [RedlockTelemetryModule.forRoot()];
    const startBeside = (beside: DynamicModule[]) =>
      startPlain({
        imports: [RedlockModule.forRoot(threeNodes()), { module: Feature, imports }, ...beside],
      });

    // The very same registration is one to Nest.
    await startBeside(imports);
    const refused = await rejection(startBeside([RedlockTelemetryModule.forRoot()]));

    expect(String(refused)).toContain(
      'RangeError: Expected RedlockTelemetryModule to be imported once in an application, got 2',
    );
  });

  it('imported from two copies of the package ends the start, too', async () => {
    const file = '../../lib/opentelemetry/redlock-telemetry.module.ts?copy';
    const copy = (await import(file)) as { RedlockTelemetryModule: typeof RedlockTelemetryModule };
    const ofBoth = [copy.RedlockTelemetryModule.forRoot(), RedlockTelemetryModule.forRoot()];

    const imports = [RedlockModule.forRoot(threeNodes()), ...ofBoth];
    const refused = await rejection(startPlain({ imports }));

    expect(copy.RedlockTelemetryModule).not.toBe(RedlockTelemetryModule);
    expect(String(refused)).toContain('to be imported once in an application, got 2 times');
  });

  it('ends with an application whose RedlockService a test has replaced', async () => {
    const log = new Log();
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot(threeNodes(), quick), RedlockTelemetryModule.forRoot()],
    })
      .setLogger(log)
      .overrideProvider(RedlockService)
      .useValue({ using: () => Promise.resolve() })
      .compile();
    await module.init();

    await module.close();

    expect(log.lines.filter(([level]) => level !== 'log')).toEqual([]);
    expect(isHeard()).toEqual(channels.map(() => false));
  });

  it('ends with the application the spans of locks that another one of the process holds on to', async () => {
    const { module, spans } = await startTelemetry();
    const other = await startPlain({ imports: [RedlockModule.forRoot(threeNodes(), quick)] });
    const lock = await other.get(RedlockService).acquire('a');

    const before = spans().map(({ name }) => name);
    await module.close();

    expect(before).toEqual(['lock acquire']);
    expect(spans().map(({ name }) => name)).toEqual(['lock acquire', 'lock hold']);
    expect(lock.isValid).toBe(true);
    // Else the other one's end would wait for it.
    await lock.release();
  });

  it.each([
    [{ resourceClass: 'order' }, 'Expected resourceClass to be a function, got "order"'],
    [null, 'Expected options to be an object, got null'],
    [{ resourceclass: () => 'order' }, 'resourceClass, resourceNames), got "resourceclass"'],
    [{ resourceNames: 1 }, 'Expected resourceNames to be true or false, got 1'],
    [{ meterProvider: 5 }, 'Expected meterProvider to be a MeterProvider, got 5'],
    [{ meterProvider: null }, 'Expected meterProvider to be a MeterProvider, got null'],
    [{ tracerProvider: {} }, 'Expected tracerProvider to be a TracerProvider, got an object'],
    [{ tracerProvider: null }, 'Expected tracerProvider to be a TracerProvider, got null'],
    [{ resourceClass: null }, 'Expected resourceClass to be a function, got null'],
  ])('refuses %p', (options, message) => {
    const register = () => RedlockTelemetryModule.forRoot(options as never);

    expect(String(thrown(register))).toContain(message);
  });
});
