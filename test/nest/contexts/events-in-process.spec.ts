/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// Handlers of events in the process: who sends one is not told, so the log is where an error has
// to be.
import { describe, expect, it } from '@jest/globals';
import { Injectable, type ModuleMetadata } from '@nestjs/common';
import { CqrsModule, EventBus, EventsHandler, type IEventHandler } from '@nestjs/cqrs';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import type { TestingModule } from '@nestjs/testing';
import { Locked, RedlockModule } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

import { eventually } from '../../support/eventually.js';
import { Log, startPlain } from '../support/applications.js';

class Paid {}
let runs = 0;

@EventsHandler(Paid)
class PaidHandler implements IEventHandler<Paid> {
  @Locked('order', { wait: 0 })
  async handle(_event: Paid): Promise<void> {
    runs += 1;
  }
}

@Injectable()
class Listener {
  @OnEvent('paid')
  @Locked('order', { wait: 0 })
  async paid(): Promise<void> {
    runs += 1;
  }
}

describe('a handler of events in the process that gets no lock', () => {
  it.each<[string, ModuleMetadata, (module: TestingModule) => unknown]>([
    [
      'publish() of @nestjs/cqrs',
      { imports: [CqrsModule.forRoot()], providers: [PaidHandler] },
      (module) => void module.get(EventBus).publish(new Paid()),
    ],
    [
      'emit() of @nestjs/event-emitter',
      { imports: [EventEmitterModule.forRoot()], providers: [Listener] },
      (module) => module.get(EventEmitter2).emit('paid'),
    ],
    [
      'emitAsync() of @nestjs/event-emitter, which resolves',
      { imports: [EventEmitterModule.forRoot()], providers: [Listener] },
      (module) => module.get(EventEmitter2).emitAsync('paid'),
    ],
  ])('misses the event, and Nest logs the error: %s', async (_way, metadata, send) => {
    runs = 0;
    const log = new Log();
    const node = new FaultyNode();
    const imports = [RedlockModule.forRoot([node]), ...(metadata.imports ?? [])];
    const module = await startPlain({ ...metadata, imports }, log);
    node.occupy('order');

    await send(module);

    const told = (): unknown => log.lines.find((line) => String(line).includes('LockTakenError'));
    await eventually(() => told() !== undefined);
    expect(runs).toBe(0);
  });
});
