// The steps of a subscription of GraphQL, whose errors are translated: otherwise they are as before.
import { describe, expect, it } from '@jest/globals';

import { translateSteps } from '../../lib/nest/transport-errors.js';
import { rejection } from './support/events.js';

async function* echo(): AsyncGenerator<unknown, unknown, unknown> {
  let heard: unknown = 'begun';
  for (;;) heard = yield heard;
}

describe('the steps of a subscription', () => {
  const translate = async (error: unknown) => ({ translated: error });
  const start = () => translateSteps(echo(), translate) as AsyncGenerator;

  it('are given what their client sends and returns', async () => {
    const steps = start();

    const heard = [await steps.next(), await steps.next('sent'), await steps.return('left')];

    expect(heard).toEqual([
      { done: false, value: 'begun' },
      { done: false, value: 'sent' },
      { done: true, value: 'left' },
    ]);
  });

  it('fail with what is made of their errors, and give no step after that', async () => {
    const steps = start();
    await steps.next();

    expect(await rejection(steps.throw('mine'))).toEqual({ translated: 'mine' });
    expect(await steps.next()).toEqual({ done: true, value: undefined });
  });

  it('are iterated once, and have what else their iterator has', async () => {
    const inner = Object.assign(echo(), { name: 'prices' });
    const steps = translateSteps(inner, translate) as typeof inner;

    expect(steps[Symbol.asyncIterator]()).toBe(steps);
    expect(steps.name).toBe('prices');
  });
});
