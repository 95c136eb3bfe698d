// Contexts without a wire: nobody but the process itself calls, and Nest runs no guards.
import type { ModuleMetadata } from '@nestjs/common';
import { CommandBus, CommandHandler, CqrsModule, QueryBus, QueryHandler } from '@nestjs/cqrs';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, CronExpression, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import type { TestingModule } from '@nestjs/testing';
import { RedlockService } from 'nestjs-locked';

import type { Log } from '../support/applications.js';
import { providersOf, type Context, type Replica, type Running } from './context.js';

/** Without a transport there is no other form: the errors themselves. */
const themselves = {
  forbidden: undefined,
  taken: { code: 'LOCK_TAKEN', resources: ['desk'] },
  lost: { code: 'LOCK_LOST', reason: 'revoked' },
};

/** A provider of a standalone application, called by the program. */
export const standalone: Context = {
  name: 'a standalone application',
  methodName: 'run',
  classDecorators: () => [],
  methodDecorators: () => [],
  start: (replica) =>
    start(replica, {}, (module) => async (operation) => {
      const named = replica.handlers.find(({ name }) => name === `Handler${operation}`);
      const handler: { run(): Promise<unknown> } = module.get(named ?? operation);
      return handler.run();
    }),
  told: themselves,
};

/** `@Cron` of @nestjs/schedule, which logs what a job throws. */
export const schedule: Context = {
  name: '@nestjs/schedule',
  methodName: 'tick',
  classDecorators: () => [],
  methodDecorators: (operation) => [
    Cron(CronExpression.EVERY_YEAR, { name: operation, waitForCompletion: true }),
  ],
  start: (replica) =>
    start(replica, { imports: [ScheduleModule.forRoot()] }, (module) => async (operation) => {
      const known = replica.log.lines.length;
      await module.get(SchedulerRegistry).getCronJob(operation).fireOnTick();
      throwLogged(replica.log, known);
    }),
  told: themselves,
};

/** `@OnEvent` of @nestjs/event-emitter. */
export const eventEmitter: Context = {
  name: '@nestjs/event-emitter',
  methodName: 'on',
  classDecorators: () => [],
  methodDecorators: (operation) => [OnEvent(operation, { suppressErrors: false })],
  start: (replica) =>
    start(
      replica,
      { imports: [EventEmitterModule.forRoot()] },
      (module) => (operation) => module.get(EventEmitter2).emitAsync(operation),
    ),
  told: themselves,
};

/** Command handlers of @nestjs/cqrs. */
export const command = cqrs('command', CommandHandler, CommandBus);

/** Query handlers of @nestjs/cqrs. */
export const cqrsQuery = cqrs('query', QueryHandler, QueryBus);

function cqrs(
  kind: string,
  decorate: (message: new () => object) => ClassDecorator,
  bus: typeof CommandBus | typeof QueryBus,
): Context {
  const messages = new Map<string, new () => object>();
  // One class per operation: a handler is found by its message's class.
  const messageOf = (operation: string): new () => object => {
    const known = messages.get(operation) ?? class {};
    messages.set(operation, known);
    return known;
  };
  return {
    name: `a @nestjs/cqrs ${kind} handler`,
    methodName: 'execute',
    classDecorators: (operation) => [decorate(messageOf(operation))],
    methodDecorators: () => [],
    start: (replica) =>
      start(
        replica,
        { imports: [CqrsModule.forRoot()] },
        (module) => (operation) =>
          module
            .get<{ execute(message: object): Promise<unknown> }>(bus)
            .execute(new (messageOf(operation))()),
      ),
    told: themselves,
  };
}

async function start(
  replica: Replica,
  metadata: ModuleMetadata,
  callIn: (module: TestingModule) => (operation: string) => Promise<unknown>,
): Promise<Running> {
  const module = await replica.build({ ...metadata, providers: providersOf(replica) }).compile();
  await module.init();
  return {
    redlock: module.get(RedlockService),
    call: callIn(module),
    close: () => module.close(),
  };
}

function throwLogged(log: Log, from: number): void {
  const line = log.lines.slice(from).find(([level]) => level === 'error');
  if (line !== undefined) throw line[1];
}
