// Connects the library's diagnostics channels to OpenTelemetry's meter and tracer.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import {
  Module,
  type DynamicModule,
  type FactoryProvider,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { metrics, trace, type MeterProvider, type TracerProvider } from '@opentelemetry/api';

import {
  checkBoolean,
  checkNames,
  checkObject,
  hasMethods,
  wrongType,
} from '../core/option-checks.js';
import { modulesWith, registeredDomains } from '../nest/redlock.module-definition.js';
import type { LockRuntime } from '../nest/redlock.module.js';
import { runtimeToken } from '../nest/redlock.tokens.js';
import type { ChannelMessages } from '../nest/telemetry.js';
import { lockAttributes, scopeName, type LockMessage } from './attributes.js';
import { LockMetrics } from './lock-metrics.js';
import { LockSpans } from './lock-spans.js';
import { observeStatus, type ObservedDomain } from './status-gauges.js';

/** Options of `RedlockTelemetryModule.forRoot`. */
export interface RedlockTelemetryOptions {
  /** Where metrics go. @default the global one, as it is when the application starts */
  readonly meterProvider?: MeterProvider | undefined;
  /** Where spans go. @default the global one */
  readonly tracerProvider?: TracerProvider | undefined;
  /**
   * Names the class of a resource, such as `order` for `order:4711`, as an attribute of metrics
   * and spans. Keep the classes few: each is a time series of its own. Return undefined for no
   * class; those of several resources are joined by `+`. Called whenever a lock is acquired,
   * refused, extended, released or lost, so it has to be quick.
   * @default no class
   */
  readonly resourceClass?: ((resource: string) => string | undefined) | undefined;
  /**
   * Whether spans name the resources. Metrics never do.
   * @default false – the names may identify people, and traces travel further than databases
   */
  readonly resourceNames?: boolean | undefined;
}

// Like the channels, the same for each copy of the package in the process.
const telemetryToken = Symbol.for('nestjs-locked.telemetry');

/**
 * Reports to OpenTelemetry what the locks of this process do; see `docs/HEALTH-AND-METRICS.md` for
 * the names. Import it once, beside `RedlockModule`, and start the SDK before the application. It
 * listens to the diagnostics channels, which all applications in a process share: import it into
 * only one of them. The class itself, without `forRoot`, reports with the default options.
 * @example
 * ```ts
 * RedlockTelemetryModule.forRoot({ resourceClass: (resource) => resource.split(':')[0] })
 * ```
 */
@Module({ providers: [provideTelemetry({})] })
export class RedlockTelemetryModule {
  /** @throws TypeError at once, naming option, rule and value. */
  static forRoot(options: RedlockTelemetryOptions = {}): DynamicModule {
    checkObject('options', options);
    checkNames('only options of RedlockTelemetryOptions', options, TELEMETRY_OPTIONS);
    const { meterProvider = metrics, tracerProvider = trace } = options;
    const { resourceClass, resourceNames = false } = options;
    if (!hasMethods(meterProvider, ['getMeter'])) {
      throw wrongType('meterProvider', 'a MeterProvider', meterProvider);
    }
    if (!hasMethods(tracerProvider, ['getTracer'])) {
      throw wrongType('tracerProvider', 'a TracerProvider', tracerProvider);
    }
    if (resourceClass !== undefined && typeof resourceClass !== 'function') {
      throw wrongType('resourceClass', 'a function', resourceClass);
    }
    checkBoolean('resourceNames', resourceNames);
    // In place of that of the class.
    return { module: RedlockTelemetryModule, providers: [provideTelemetry(options)] };
  }
}

const TELEMETRY_OPTIONS: Readonly<Record<keyof RedlockTelemetryOptions, true>> = {
  meterProvider: true,
  tracerProvider: true,
  resourceClass: true,
  resourceNames: true,
};

function provideTelemetry(options: RedlockTelemetryOptions): FactoryProvider {
  return {
    provide: telemetryToken,
    inject: [ModuleRef, ModulesContainer],
    useFactory: (moduleRef: ModuleRef, modules: ModulesContainer) => {
      assertImportedOnce(modules);
      hearFirst(modules);
      return new Telemetry(options, moduleRef, modules);
    },
  };
}

/** Listens to the channels from the start of the application to its end. */
class Telemetry implements OnModuleInit, OnApplicationShutdown {
  readonly #options: RedlockTelemetryOptions;
  readonly #moduleRef: ModuleRef;
  readonly #modules: ModulesContainer;
  #domains: readonly ObservedDomain[] = [];
  #stops: readonly (() => void)[] = [];

  constructor(options: RedlockTelemetryOptions, moduleRef: ModuleRef, modules: ModulesContainer) {
    this.#options = options;
    this.#moduleRef = moduleRef;
    this.#modules = modules;
  }

  onModuleInit(): void {
    const { resourceClass, resourceNames: hasResourceNames = false } = this.#options;
    const meter = (this.#options.meterProvider ?? metrics).getMeter(scopeName);
    const tracer = (this.#options.tracerProvider ?? trace).getTracer(scopeName);
    const record = new LockMetrics(meter);
    const spans = new LockSpans(tracer, hasResourceNames);
    const attributesOf = (message: LockMessage) => lockAttributes(message, resourceClass);
    this.#domains = this.#findDomains();
    this.#stops = [
      hear('acquire', (message) => {
        const lock = attributesOf(message);
        record.onAcquire(message, lock);
        spans.onAcquire(message, lock);
      }),
      hear('extend', (message) => {
        record.onExtend(attributesOf(message));
        spans.onExtend(message);
      }),
      hear('release', (message) => {
        record.onRelease(message, attributesOf(message));
        spans.onRelease(message);
      }),
      hear('lost', (message) => {
        record.onLost(message, attributesOf(message));
        spans.onLost(message);
      }),
      hear('round', (message) => record.onRound(message)),
      observeStatus(meter, this.#domains),
      () => spans.close(),
    ];
  }

  onApplicationShutdown(): void {
    // Not awaited: modules that Nest shuts down after this one may still need their locks.
    void Promise.all(this.#domains.map(({ runtime }) => runtime.closed)).then(() => {
      for (const stop of this.#stops) stop();
    });
  }

  #findDomains(): ObservedDomain[] {
    return registeredDomains(this.#modules).map((name) => ({
      name,
      runtime: this.#moduleRef.get<LockRuntime>(runtimeToken(name), { strict: false }),
    }));
  }
}

// Each import would listen to all channels, and count every lock once more.
function assertImportedOnce(modules: ModulesContainer): void {
  const count = modulesWith(telemetryToken, modules).length;
  if (count <= 1) return;
  throw new RangeError(
    `Expected RedlockTelemetryModule to be imported once in an application, got ${count} times: ` +
      `import it in the root module alone`,
  );
}

// At start Nest calls hooks by falling distance of the modules from the root, and the hooks of
// other modules may already acquire locks.
function hearFirst(modules: ModulesContainer): void {
  for (const module of modulesWith(telemetryToken, modules)) module.distance = Infinity;
}

function hear<Name extends keyof ChannelMessages>(
  name: Name,
  listener: (message: ChannelMessages[Name]) => void,
): () => void {
  const onMessage = (message: unknown): void => {
    listener(message as ChannelMessages[Name]);
  };
  subscribe(`nestjs-locked:${name}`, onMessage);
  return () => {
    unsubscribe(`nestjs-locked:${name}`, onMessage);
  };
}
