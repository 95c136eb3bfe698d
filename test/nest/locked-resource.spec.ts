import { describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, type ExecutionContext } from '@nestjs/common';
import { currentLock, fromContext } from 'nestjs-locked';

import { nameResources, type LockedResource } from '../../lib/nest/locked-resource.js';
import { startServer } from './support/applications.js';
import { thrown } from './support/events.js';
import { get } from './support/requests.js';

describe.each<[string, (name: () => string) => LockedResource]>([
  ['resource', (name) => name],
  ['fromContext', fromContext],
])('the names that a %s function gives', (kind, resourceBy) => {
  it.each([
    ['', 'to be a non-empty string or an array of them, got ""'],
    [
      'order:[object Object]',
      'to be made of texts and numbers, got an object in a name; ' +
        'put its id there, and tag the template: resource`…`',
    ],
  ])('are refused with who gave them: %j', (name, reason) => {
    const call = { context: {} as ExecutionContext };
    const mistake = () =>
      nameResources(
        'Orders.pay',
        resourceBy(() => name),
        call,
      );

    expect(String(thrown(mistake))).toBe(
      `TypeError: Expected the result of Orders.pay's ${kind} function ${reason}`,
    );
  });
});

describe('fromContext', () => {
  it('is understood by another copy of the package too, such as ESM and CJS', async () => {
    jest.resetModules();
    const copy = await import('nestjs-locked');
    @Controller()
    class Orders {
      @Get()
      @copy.Locked(fromContext(() => 'order:7'))
      async pay(): Promise<unknown> {
        return currentLock()?.resources;
      }
    }
    const { url } = await startServer({ controllers: [Orders] });

    expect((await get(url, '/')).body).toBe('["order:7"]');
  });
});
