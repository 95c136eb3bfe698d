import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { fromContext } from 'nestjs-locked';

import { nameResources, type LockedResource } from '../../lib/nest/locked-resource.js';
import { thrown } from './support/events.js';

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
