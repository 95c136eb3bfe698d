import {
  Module,
  type BeforeApplicationShutdown,
  type DynamicModule,
  type NestInterceptor,
  type OnApplicationShutdown,
  type Provider,
} from '@nestjs/common';
import { APP_INTERCEPTOR, HttpAdapterHost, ModuleRef, ModulesContainer } from '@nestjs/core';

import { bindToContext, type Environment, type TimerHandle } from '../core/environment.js';
import { checkNames, checkObject, isObject, membersOf } from '../core/option-checks.js';
import { REDLOCK_OPTIONS } from '../core/options.js';
import { majorityOf } from '../core/quorum.js';
import { Redlock } from '../core/redlock.js';
import { createNodes, type NodeInput, type NodeSet } from '../nodes/node-inputs.js';
import { checkMethods } from './locked-definition.js';
import { httpStatusToken, LockedInterceptor } from './locked.interceptor.js';
import {
  createRegistration,
  DOMAIN_OPTIONS,
  modulesWith,
  NEST_OPTIONS,
  provideRegistration,
  registrationToken,
  resolveDomain,
  type Domain,
  type RedlockModuleAsyncOptions,
  type RedlockModuleOptions,
  type Registration,
} from './redlock.module-definition.js';
import { redlockLogger } from './redlock.logger.js';
import { RedlockService } from './redlock.service.js';
import { defaultDomain, getRedlockToken, runtimeToken } from './redlock.tokens.js';
import { createObserver } from './telemetry.js';
import type { Milliseconds } from '../core/units.js';

/**
 * Provides the {@link RedlockService} of a lock domain and makes `@Locked` work.
 *
 * At start it waits up to 2 s for the nodes. A mistake in the configuration makes the start fail;
 * nodes that are merely down do not.
 *
 * At `app.close()`, or at a signal with `enableShutdownHooks()`, new acquisitions are refused.
 * Running bodies get `shutdownTimeout`, and then, their signals aborted, one more second. Locks are
 * released, and the connections that were made here are closed. All this begins when the servers
 * have drained, at the latest `shutdownTimeout` after they began to.
 * @example
 * ```ts
 * @Module({
 *   imports: [RedlockModule.forRoot(['redis://a:6379', 'redis://b:6379', 'redis://c:6379'])],
 * })
 * export class AppModule {}
 * ```
 */
@Module({})
export class RedlockModule {
  /**
   * Registers a lock domain.
   * @param nodes The independent nodes: `redis://` or `rediss://` URLs, ioredis options or
   *   clients, or any `LockNode`. Left out: one node in this process's memory.
   * @throws TypeError, RangeError at once, naming option, rule and value. A mistake in one of
   *   `nodes` makes the start of the application fail.
   */
  static forRoot(nodes?: readonly NodeInput[], options: RedlockModuleOptions = {}): DynamicModule {
    const members = membersOf('options', options);
    const known = { ...REDLOCK_OPTIONS, ...NEST_OPTIONS, ...DOMAIN_OPTIONS };
    checkNames('only options of RedlockModuleOptions', members, known);
    const { name, isGlobal, ...rest } = members;
    if (nodes !== undefined && 'nodes' in rest) {
      throw new TypeError('Expected nodes once, got them among the options too');
    }
    const domain = resolveDomain(name, isGlobal);
    const registration = createRegistration(nodes === undefined ? rest : { ...rest, nodes });
    return describeModule(domain, [
      { provide: registrationToken(domain.name), useValue: registration },
    ]);
  }

  /**
   * Registers a lock domain whose options come from a factory or another provider.
   * @throws TypeError at once unless there is exactly one of `useFactory`, `useClass` and
   *   `useExisting`, and for unknown options: those of locks belong in what the factory returns. A
   *   mistake in these makes the start of the application fail.
   */
  static forRootAsync(options: RedlockModuleAsyncOptions): DynamicModule {
    checkObject('options', options);
    const domain = resolveDomain(options.name, options.isGlobal);
    const providers = provideRegistration(registrationToken(domain.name), options);
    return { ...describeModule(domain, providers), imports: options.imports ?? [] };
  }
}

/** The runtimes of an application, by their tokens. */
type Runtimes = Record<symbol, Promise<LockRuntime>>;

/** How long the start waits for nodes that do not answer. */
const START_TIMEOUT: Milliseconds = 2_000;

function describeModule({ name, isGlobal }: Domain, registration: Provider[]): DynamicModule {
  // Tokens, all four. The class is the provider and the symbol its alias: a test that overrides
  // RedlockService also overrides what @Locked gets.
  const registered = registrationToken(name);
  const runtime = runtimeToken(name);
  const alias = getRedlockToken(name);
  const service = name === defaultDomain ? RedlockService : alias;
  const providers: Provider[] = [
    ...registration,
    {
      provide: runtime,
      inject: [registered, ModulesContainer],
      // When a lazy module imports it too, Nest before 11.2 makes this module again and forgets the
      // first. Two runtimes would not know of each other, and one would not be shut down.
      useFactory: (options: Registration, modules: ModulesContainer & Runtimes) => {
        assertRegisteredOnce(name, modules);
        shutDownLast(name, modules);
        return (modules[runtime] ??= LockRuntime.start(name, options));
      },
    },
    {
      provide: service,
      inject: [runtime, registered, ModulesContainer],
      useFactory: (
        { redlock }: LockRuntime,
        { isReentrant }: Registration,
        modules: ModulesContainer,
      ) => {
        const made = new RedlockService(redlock, { reentrant: isReentrant });
        checkClasses(name, made, modules);
        return made;
      },
    },
    ...(service === alias ? [] : [{ provide: alias, useExisting: service }]),
    {
      provide: httpStatusToken,
      inject: [registered],
      useFactory: ({ httpStatus }: Registration) => httpStatus,
    },
    {
      provide: APP_INTERCEPTOR,
      inject: [registered, ModuleRef, HttpAdapterHost],
      useFactory: createInterceptor,
    },
  ];
  const exports = [service, alias, httpStatusToken];
  return { module: RedlockModule, global: isGlobal, providers, exports };
}

function createInterceptor(
  registration: Registration,
  moduleRef: ModuleRef,
  adapterHost: HttpAdapterHost,
): NestInterceptor {
  // Only here is it known whether there is one, as the options may come from a factory.
  if (!registration.hasInterceptor) return { intercept: (_context, next) => next.handle() };
  return new LockedInterceptor(moduleRef, adapterHost, registration.httpStatus);
}

/** A lock domain at work, from the start of the application to its shutdown. */
export class LockRuntime implements BeforeApplicationShutdown, OnApplicationShutdown {
  readonly redlock: Redlock;
  readonly #nodes: NodeSet;
  readonly #environment: Environment;
  #shutdownTimer: TimerHandle = null;
  #tellClosed: (() => void) | undefined;
  /** Resolves when the application has shut down and its locks have ended. */
  readonly closed = new Promise<void>((resolve) => (this.#tellClosed = resolve));

  constructor(redlock: Redlock, nodes: NodeSet, environment: Environment) {
    this.redlock = redlock;
    this.#nodes = nodes;
    this.#environment = environment;
  }

  // In the async context of the load. What goes on as long as the application, as extensions do,
  // would else belong to whatever was under way at its start, such as a span.
  static readonly start = bindToContext(async (name: string, registration: Registration) => {
    const { nodes: inputs, core, resolved, environment } = registration;
    if (inputs === undefined) logMemoryOnly(name);
    else warnOfEvenCount(name, inputs.length);
    const ports = { environment, observer: createObserver(name, environment) };
    const nodes = createNodes(inputs, resolved, ports);
    try {
      await nodes.whenReady(START_TIMEOUT);
      return new LockRuntime(new Redlock(nodes.nodes, core, ports), nodes, environment);
    } catch (error) {
      await nodes.close();
      throw error;
    }
  });

  // Nest closes its servers next, and an endpoint whose lock never ends may keep them open.
  beforeApplicationShutdown(): void {
    const close = (): void => void this.redlock.close();
    const { shutdownTimeout } = this.redlock.options;
    this.#shutdownTimer = this.#environment.startTimer(shutdownTimeout, close, false);
  }

  async onApplicationShutdown(): Promise<void> {
    this.#environment.stopTimer(this.#shutdownTimer);
    await this.redlock.close();
    this.#tellClosed?.();
    // Last: the releases above travel on these connections.
    await this.#nodes.close();
  }
}

// Two registrations are two sets of nodes: the locks of one exclude nobody in the other.
function assertRegisteredOnce(name: string, modules: ModulesContainer): void {
  const count = modulesWith(registrationToken(name), modules).length;
  if (count <= 1) return;
  throw new RangeError(
    `Expected ${labelOf(name)} to be registered once in an application, got ${count} times: ` +
      `import it in the root module alone, or give each registration its own name`,
  );
}

// Queue workers stop in the same hook in which locks close, and begin jobs that want locks until
// they have stopped. At shutdown Nest calls hooks by rising distance of the modules from the root,
// and at equal distance, as of all global modules, in the reverse order of their imports. At start
// the order is the opposite, which makes no difference, as we have no hooks there.
function shutDownLast(name: string, modules: ModulesContainer): void {
  for (const module of modulesWith(registrationToken(name), modules)) module.distance = Infinity;
}

// Injection checks the methods of an instance, but the start makes none of a request-scoped or
// transient class, nor of what depends on one.
function checkClasses(name: string, service: RedlockService, modules: ModulesContainer): void {
  for (const { providers, controllers, injectables } of modules.values()) {
    for (const wrappers of [providers, controllers, injectables]) {
      for (const { metatype } of wrappers.values()) {
        const prototype: unknown = metatype?.prototype;
        if (isObject(prototype)) checkMethods(prototype, name, service);
      }
    }
  }
}

// Meant for tests and development; where NODE_ENV is production, most likely a forgotten setting.
function logMemoryOnly(name: string): void {
  const level = process.env.NODE_ENV === 'production' ? 'warn' : 'log';
  redlockLogger[level](`${labelOf(name)} locks in this process only, as it was given no nodes`);
}

function warnOfEvenCount(name: string, count: number): void {
  if (count % 2 !== 0) return;
  const tolerated = count - majorityOf(count);
  redlockLogger.warn(
    `${labelOf(name)} has ${count} nodes, which tolerate the failure of ${tolerated}, as ` +
      `${count - 1} would: the last one only adds one that can fail. Name an odd number`,
  );
}

function labelOf(name: string): string {
  return name === defaultDomain ? 'RedlockModule' : `RedlockModule '${name}'`;
}
