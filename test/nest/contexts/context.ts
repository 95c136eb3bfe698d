// One `@Locked` handler, put into every kind of Nest application: what a context has to tell about
// itself so that contexts.spec.ts can hold it to the same facts as all others.
import {
  Injectable,
  SetMetadata,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type ModuleMetadata,
  type Provider,
  type Type,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import {
  currentLock,
  Locked,
  RedlockModule,
  RedlockService,
  type LockedOptions,
  type LockNode,
} from 'nestjs-locked';

import { Log, quick } from '../support/applications.js';

/** One way to write the handler: an order of decorators, or other options of `@Locked`. */
export interface Operation {
  readonly name: string;
  readonly options: LockedOptions;
  /** Where each decorator stands, top to bottom; sorted by these numbers. */
  readonly order: readonly number[];
  /** Whether `@Locked` is left out. @default false */
  readonly isOpen?: boolean;
}

/** A kind of Nest application. */
export interface Context {
  readonly name: string;
  /** What the handler's method is called. */
  readonly methodName: string;
  /** What the handler's class extends. @default nothing */
  readonly base?: abstract new () => object;
  /** The decorators that make a class's method a handler of this context. */
  readonly classDecorators: (operation: string) => readonly ClassDecorator[];
  readonly methodDecorators: (operation: string) => readonly MethodDecorator[];
  /** Starts one replica with these handlers. */
  readonly start: (replica: Replica) => Promise<Running>;
  /** What a caller is told, in the context's own form. */
  readonly told: {
    /** Undefined where Nest runs no guards. */
    readonly forbidden: object | undefined;
    readonly taken: object;
    readonly lost: object;
  };
}

/** What a context starts. */
export interface Replica {
  readonly handlers: readonly Type[];
  /** A module with the handlers, the locks and what the context adds. */
  readonly build: (metadata: ModuleMetadata) => TestingModuleBuilder;
  readonly log: Log;
  /** A server for what a context itself keeps in Redis. */
  readonly redisPort: number;
}

/** A started replica. */
export interface Running {
  readonly redlock: RedlockService;
  /** Calls a handler as a client of this kind does; rejects with what the client is told. */
  readonly call: (operation: string, role: string) => Promise<unknown>;
  readonly close: () => Promise<unknown>;
}

/** Within so many ms all calls of a crowd have arrived: else the test fails. Its calls wait longer. */
export const ARRIVAL_LIMIT = 4_000;

/** What is locked. */
export const DESK = 'desk';

/** Where all handlers lead: knows who was there, and whether two were there at once. */
export class Desk {
  visits: string[] = [];
  /** The most visitors at a time. */
  most = 0;
  #inside = 0;
  serve: () => Promise<unknown> = async () => 'done';

  async visit(operation: string): Promise<unknown> {
    const locked = currentLock()?.resources.includes(DESK) === true;
    this.visits.push(`${operation} ${locked ? 'locked' : 'unlocked'}`);
    this.#inside += 1;
    this.most = Math.max(this.most, this.#inside);
    try {
      return await this.serve();
    } finally {
      this.#inside -= 1;
    }
  }
}

/** The metadata that a role guard lives on. */
export const ROLES = 'roles';

/** Like most role guards: a handler that names no roles is for everybody. */
@Injectable()
export class RoleGuard implements CanActivate {
  readonly reflector: Reflector;
  constructor(reflector: Reflector) {
    this.reflector = reflector;
  }

  canActivate(context: ExecutionContext): boolean {
    const roles = this.reflector.get<string[] | undefined>(ROLES, context.getHandler());
    return roles?.includes(roleOf(context)) ?? true;
  }
}

function roleOf(context: ExecutionContext): string {
  const carrier = {
    http: () => context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers,
    rpc: () => context.switchToRpc().getData<Record<string, string>>(),
    ws: () => context.switchToWs().getData<Record<string, string>>(),
    // The arguments of a resolver: parent, arguments, context, info.
    graphql: () =>
      context.getArgByIndex<{ req: { headers: Record<string, string> } }>(2).req.headers,
  }[context.getType<'http' | 'rpc' | 'ws' | 'graphql'>()];
  return carrier().role ?? '';
}

/** Every order of the context's decorators, `@Locked`, a guard and the metadata it reads. */
export function everyOrder(context: Context): Operation[] {
  const count = decoratorsOf(context, { name: 'any', options: {}, order: [] }).length;
  return permutations(count).map((order, index) => ({ name: `order${index}`, options: {}, order }));
}

/** A class with one handler. The decorators run as those that a compiler calls: bottom up. */
export function handlerOf(context: Context, operation: Operation, desk: Desk): Type {
  const { methodName } = context;
  class Handler extends (context.base ?? Object) {}
  Object.defineProperty(Handler, 'name', { value: `Handler${operation.name}` });
  const method = {
    // eslint-disable-next-line @typescript-eslint/no-unused-vars -- a queue's worker looks at it
    async [methodName](_input: unknown): Promise<unknown> {
      return desk.visit(operation.name);
    },
  };
  const descriptor = { value: method[methodName], writable: true, configurable: true };
  Object.defineProperty(Handler.prototype, methodName, descriptor);
  const decorated = Reflect.decorate(
    decoratorsOf(context, operation),
    Handler.prototype,
    methodName,
    descriptor,
  );
  Object.defineProperty(Handler.prototype, methodName, decorated);
  const classDecorators = [Injectable(), ...context.classDecorators(operation.name)];
  return Reflect.decorate(classDecorators, Handler) as Type;
}

/** The module of one replica, over the nodes that it shares with the others. */
export function replicaOf(
  handlers: readonly Type[],
  nodes: readonly LockNode[],
  log: Log,
  redisPort: number,
): Replica {
  const build = (metadata: ModuleMetadata): TestingModuleBuilder =>
    Test.createTestingModule({
      ...metadata,
      imports: [
        RedlockModule.forRoot(nodes, { ...quick, wait: 2 * ARRIVAL_LIMIT }),
        ...(metadata.imports ?? []),
      ],
    }).setLogger(log);
  return { handlers, build, log, redisPort };
}

/** Listens with an application; `callAt` is told where. */
export async function listen(
  application: INestApplication,
  callAt: (url: string) => Running['call'],
): Promise<Running> {
  await application.listen(0, '127.0.0.1');
  return {
    redlock: application.get(RedlockService),
    call: callAt(await application.getUrl()),
    close: () => application.close(),
  };
}

/** Handlers as providers. */
export function providersOf({ handlers }: Replica): Provider[] {
  return [...handlers];
}

function decoratorsOf(context: Context, operation: Operation): MethodDecorator[] {
  const { name, options, order, isOpen = false } = operation;
  const decorators = [
    ...(isOpen ? [] : [Locked(DESK, options) as MethodDecorator]),
    SetMetadata(ROLES, ['admin']),
    ...(context.told.forbidden === undefined ? [] : [UseGuards(RoleGuard)]),
    ...context.methodDecorators(name),
  ];
  return decorators
    .map((decorator, index) => ({ decorator, place: order[index] ?? index }))
    .sort((a, b) => a.place - b.place)
    .map(({ decorator }) => decorator);
}

function permutations(count: number): number[][] {
  if (count === 0) return [[]];
  return permutations(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, place) => [
      ...rest.slice(0, place),
      count - 1,
      ...rest.slice(place),
    ]),
  );
}
