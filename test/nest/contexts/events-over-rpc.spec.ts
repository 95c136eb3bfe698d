/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// Handlers of events: nobody waits for an answer, so the log is where an error has to be.
import { describe, expect, it } from '@jest/globals';
import { Controller } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { Locked, RedlockModule } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';
import { firstValueFrom } from 'rxjs';

import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { Log } from '../support/applications.js';
import { startTcpService } from '../support/tcp-service.js';

describe('an @EventPattern handler that gets no lock', () => {
  @Controller()
  class Orders {
    constructor() {
      this.bound = this.bound.bind(this);
    }

    @EventPattern('bound')
    @Locked('order', { wait: 0 })
    async bound(_data: object): Promise<void> {}

    @EventPattern('above')
    @Locked('order', { wait: 0 })
    async above(_data: object): Promise<void> {}

    @Locked('order', { wait: 0 })
    @EventPattern('below')
    async below(_data: object): Promise<void> {}
  }

  it.each(['above', 'below', 'bound'])('leaves its event in the log: %s', async (pattern) => {
    const log = new Log();
    const node = new FaultyNode();
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot([node])],
      controllers: [Orders],
    })
      .setLogger(log)
      .compile();
    const { client, close } = await startTcpService(module);
    afterTest(close);
    node.occupy('order');

    await firstValueFrom(client.emit(pattern, {}), { defaultValue: null });

    const told = (): unknown => log.lines.find(([level]) => level === 'error')?.[1];
    await eventually(() => told() !== undefined);
    expect(told()).toMatchObject({ code: 'LOCK_TAKEN', resources: ['order'] });
  });
});
