// The module's options, given directly or by a factory, in one shape: a registration.
//
// Written by hand rather than by Nest's ConfigurableModuleBuilder: the nodes are positional, the
// domain's name decides the tokens, and forRoot has to refuse bad options at once.
import type {
  FactoryProvider,
  InjectionToken,
  ModuleMetadata,
  Provider,
  Type,
} from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';

import { checkEnvironment, systemEnvironment, type Environment } from '../core/environment.js';
import {
  checkBoolean,
  checkNames,
  describeSafely,
  hasMethods,
  isObject,
  membersOf,
  wrongType,
} from '../core/option-checks.js';
import {
  REDLOCK_OPTIONS,
  resolveOptions,
  type RedlockOptions,
  type ResolvedOptions,
} from '../core/options.js';
import { methodsOf } from './locked-definition.js';
import { RedlockService } from './redlock.service.js';
import { checkDomain, defaultDomain, getRedlockToken } from './redlock.tokens.js';
import { resolveHttpStatus, type RedlockHttpStatus } from './transport-errors.js';
import type { NodeInput } from '../nodes/node-inputs.js';
import type { ReentrantOptions } from './reentry.js';

/** Which lock domain a registration is, and which modules see it. */
export interface RedlockDomainOptions {
  /**
   * Names the lock domain, for `InjectRedlock(name)` and `@Locked(…, { redlock: name })`. Each
   * domain has its own nodes and options, and is registered once in an application. Domains over
   * the same servers need a `keyPrefix` each: otherwise they wait for each other's locks.
   * @default 'default' – the one that `RedlockService` and a plain `@Locked` mean
   */
  readonly name?: string | undefined;
  /**
   * Whether all modules see it. With false, `@Locked` works only where the module is imported. Keep
   * the result of `forRoot` in one constant and import that everywhere: each call of `forRoot` is a
   * registration of its own.
   * @default true – a lock that one module forgets to take protects nothing
   */
  readonly isGlobal?: boolean | undefined;
}

/** Options of the Nest layer, in addition to {@link RedlockOptions}. */
export interface RedlockNestOptions extends ReentrantOptions {
  /**
   * Whether the `LockedInterceptor` is registered for all endpoints. Without it, `@Locked`
   * endpoints hold their lock only while the handler runs, and lock errors are not translated.
   * Each domain has its own setting; one that leaves it on is enough.
   * @default true – a transaction around the handler should commit inside the lock
   */
  readonly interceptor?: boolean | undefined;
  /**
   * HTTP statuses of lock errors. With several domains, those of the first count, or of the first
   * that leaves `interceptor` on.
   */
  readonly httpStatus?: RedlockHttpStatus | undefined;
  /**
   * Where locks get clocks, timers and randomness from; for tests. A `LockNode` that you pass in
   * has its own. @default those of the process, as they were when the package was loaded
   */
  readonly environment?: Environment | undefined;
}

/** Options of `RedlockModule.forRoot`. */
export interface RedlockModuleOptions
  extends RedlockOptions, RedlockNestOptions, RedlockDomainOptions {}

/** What an options factory of `RedlockModule.forRootAsync` returns. */
export interface RedlockFactoryOptions extends RedlockOptions, RedlockNestOptions {
  /** The independent nodes. Left out: one node in this process's memory. */
  readonly nodes?: readonly NodeInput[] | undefined;
}

/** A provider that makes the options, for `useClass` and `useExisting`. */
export interface RedlockOptionsFactory {
  /**
   * Makes the options; called once, when the application starts. The start fails with what it
   * throws or rejects with, or with a TypeError or RangeError that names a wrong option.
   */
  createRedlockOptions(): RedlockFactoryOptions | Promise<RedlockFactoryOptions>;
}

/** Options of `RedlockModule.forRootAsync`: exactly one of the three `use…`. */
export interface RedlockModuleAsyncOptions extends RedlockDomainOptions {
  /** Modules that export what `inject`, `useClass` and `useExisting` need. */
  readonly imports?: ModuleMetadata['imports'] | undefined;
  /**
   * Tokens of what is injected into `useFactory`. Nothing request-scoped: locks would only begin
   * with the first request, without the interceptor, and nobody would close them. Recent versions
   * of Nest refuse it.
   */
  readonly inject?: FactoryProvider['inject'] | undefined;
  /** Makes the options from what `inject` names. */
  readonly useFactory?:
    | ((
        // The tokens of `inject` decide what comes; no type can say it.
        // eslint-disable-next-line @typescript-eslint/no-explicit-any
        ...args: any[]
      ) => RedlockFactoryOptions | Promise<RedlockFactoryOptions>)
    | undefined;
  /** A class that Nest instantiates for this purpose. */
  readonly useClass?: Type<RedlockOptionsFactory> | undefined;
  /** A provider that exists already, in one of `imports` or globally. */
  readonly useExisting?: InjectionToken<RedlockOptionsFactory> | undefined;
}

/** {@link RedlockDomainOptions}, checked and complete. */
export interface Domain {
  readonly name: string;
  readonly isGlobal: boolean;
}

/** One lock domain's options, checked. */
export interface Registration {
  readonly nodes: readonly NodeInput[] | undefined;
  readonly core: RedlockOptions;
  readonly resolved: ResolvedOptions;
  readonly isReentrant: boolean;
  readonly hasInterceptor: boolean;
  readonly httpStatus: ReturnType<typeof resolveHttpStatus>;
  readonly environment: Environment;
}

/** Token of a domain's {@link Registration}. */
export function registrationToken(name: string): symbol {
  return Symbol.for(`${registrationPrefix}${name}`);
}

/** The modules of an application that provide something under `token`. */
export function modulesWith(token: symbol, modules: ModulesContainer): { distance: number }[] {
  return [...modules.values()].filter(({ providers }) => providers.has(token));
}

/** Names of the lock domains that an application has registered. */
export function registeredDomains(modules: ModulesContainer): string[] {
  const tokens = [...modules.values()].flatMap(({ providers }) => [...providers.keys()]);
  return tokens.flatMap((token) => {
    const key = typeof token === 'symbol' ? (Symbol.keyFor(token) ?? '') : '';
    return key.startsWith(registrationPrefix) ? [key.slice(registrationPrefix.length)] : [];
  });
}

const registrationPrefix = 'nestjs-locked.registration:';

/** Those of {@link RedlockFactoryOptions} that the locks themselves do not have. */
export const NEST_OPTIONS: Readonly<
  Record<Exclude<keyof RedlockFactoryOptions, keyof RedlockOptions>, true>
> = { nodes: true, interceptor: true, httpStatus: true, reentrant: true, environment: true };

/** All {@link RedlockDomainOptions} there are. */
export const DOMAIN_OPTIONS: Readonly<Record<keyof RedlockDomainOptions, true>> = {
  name: true,
  isGlobal: true,
};

/** @throws TypeError, RangeError naming option, rule and value. */
export function createRegistration(options: RedlockFactoryOptions): Registration {
  const { nodes, interceptor = true, httpStatus, reentrant = false, ...further } = options;
  const { environment = systemEnvironment, ...core } = further;
  if (nodes !== undefined && !Array.isArray(nodes)) {
    throw new TypeError(`Expected nodes to be an array, got ${describeSafely(nodes)}`);
  }
  if (nodes?.length === 0) {
    throw new RangeError(
      'Expected nodes to name at least one node, got an empty array. Leave it out to lock in ' +
        'this process only',
    );
  }
  return Object.freeze({
    nodes,
    core,
    resolved: resolveOptions(core, nodes?.length ?? 1),
    isReentrant: checkBoolean('reentrant', reentrant),
    hasInterceptor: checkBoolean('interceptor', interceptor),
    httpStatus: resolveHttpStatus(httpStatus),
    environment: checkEnvironment(environment),
  });
}

/** @throws TypeError naming option, rule and value. */
export function resolveDomain(name = defaultDomain, isGlobal = true): Domain {
  checkDomain(name);
  return { name, isGlobal: checkBoolean('isGlobal', isGlobal) };
}

const ASYNC_OPTIONS: Readonly<Record<keyof RedlockModuleAsyncOptions, true>> = {
  name: true,
  isGlobal: true,
  imports: true,
  inject: true,
  useFactory: true,
  useClass: true,
  useExisting: true,
};

/**
 * Provides a {@link Registration} made by `useFactory`, `useClass` or `useExisting`.
 * @throws TypeError unless exactly one of them is given, for an unknown option, and where one of
 *   them needs the domain's RedlockService or a class with `@Locked` methods of the domain.
 */
export function provideRegistration(
  provide: symbol,
  options: RedlockModuleAsyncOptions,
): Provider[] {
  // A ttl here, instead of in what the factory returns, would have no effect.
  checkNames('only options of RedlockModuleAsyncOptions', options, ASYNC_OPTIONS);
  const { useFactory, useClass, useExisting, inject = [] } = options;
  const given = [useFactory, useClass, useExisting].filter((way) => way !== undefined);
  if (given.length !== 1) {
    throw new TypeError(
      `Expected forRootAsync to be given one of useFactory, useClass and useExisting, ` +
        `got ${given.length}`,
    );
  }
  if (!Array.isArray(inject)) throw wrongType('inject', 'an array of tokens', inject);
  if (useFactory !== undefined && typeof useFactory !== 'function') {
    throw wrongType('useFactory', 'a function', useFactory);
  }
  for (const token of [useClass, useExisting, ...inject]) checkIndependent(token, options.name);
  if (useFactory !== undefined) {
    const create = async (...args: unknown[]): Promise<Registration> =>
      registrationOf(await useFactory(...args), 'the result of useFactory');
    return [{ provide, inject, useFactory: create }];
  }
  const create = async (factory: RedlockOptionsFactory): Promise<Registration> => {
    if (!hasMethods(factory, ['createRedlockOptions'])) {
      const way = useClass === undefined ? 'useExisting' : 'useClass';
      throw new TypeError(
        `Expected ${way} to give a RedlockOptionsFactory, with the method createRedlockOptions, ` +
          `got ${describeSafely(factory)}`,
      );
    }
    const options = await factory.createRedlockOptions();
    return registrationOf(options, 'the result of createRedlockOptions');
  };
  if (useClass !== undefined) {
    return [useClass, { provide, inject: [useClass], useFactory: create }];
  }
  return [{ provide, inject: [useExisting ?? ''], useFactory: create }];
}

// `origin` names the options in errors.
function registrationOf(options: RedlockFactoryOptions, origin: string): Registration {
  const members = membersOf(origin, options);
  for (const name of Object.keys(DOMAIN_OPTIONS)) {
    if (Object.hasOwn(members, name)) {
      throw new TypeError(`Expected ${name} beside the factory, got it in ${origin}`);
    }
  }
  const known = { ...REDLOCK_OPTIONS, ...NEST_OPTIONS };
  checkNames('only options of RedlockFactoryOptions', members, known);
  return createRegistration(members);
}

// Nest 11 finds no cycle through a factory: its start would neither end nor say why.
function checkIndependent(injected: unknown, domain = defaultDomain): void {
  const token = isObject(injected) && 'token' in injected ? injected.token : injected;
  if (token === getRedlockToken(domain)) throw cycleError('the RedlockService that it makes');
  if (typeof token !== 'function' || !isObject(token.prototype)) return;
  if (token === RedlockService && domain === defaultDomain) throw cycleError(token.name);
  for (const { method, domain: theirs } of methodsOf(token.prototype).values()) {
    if (theirs === domain) throw cycleError(`${token.name} with the @Locked ${method}`);
  }
}

function cycleError(what: string): TypeError {
  return new TypeError(
    `Expected forRootAsync to need nothing that needs its locks, got ${what}: each would wait ` +
      `for the other. Make the options from another class`,
  );
}
