// The guide's endpoint as it stands there: code that handles payments is copied, so it has to be right.
import { setImmediate as nextTurn } from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';
import * as common from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import * as locked from 'nestjs-locked';

import { loadGuide } from '../support/guides.js';
import { startServer } from './support/applications.js';

interface Guide {
  readonly Payments: new (answers: Answers) => unknown;
  readonly PaymentsController: new (...args: never[]) => unknown;
}

interface Request {
  readonly headers: Readonly<Record<string, string>>;
  user?: object;
}

/** A store that takes its time. */
class Answers {
  readonly kept: string[] = [];
  readonly #answers = new Map<string, string>();

  async find(key: string): Promise<string | undefined> {
    await nextTurn();
    return this.#answers.get(key);
  }

  async keep(key: string, answer: string): Promise<void> {
    await nextTurn();
    this.#answers.set(key, answer);
    this.kept.push(key);
  }
}

function load(): Guide {
  return loadGuide('IDEMPOTENCY.md', {
    '@nestjs/common': common,
    'nestjs-locked': locked,
  }) as Guide;
}

async function startPayments() {
  const { Payments, PaymentsController } = load();
  const answers = new Answers();
  const canActivate = (context: common.ExecutionContext): boolean => {
    const request = context.switchToHttp().getRequest<Request>();
    request.user = { id: request.headers['x-user'] };
    return true;
  };
  const { url } = await startServer({
    controllers: [PaymentsController],
    providers: [
      { provide: Payments, useValue: new Payments(answers) },
      { provide: APP_GUARD, useValue: { canActivate } },
    ],
  });
  const pay = async (user: string, key: string | null): Promise<string> => {
    const headers = new Headers({ 'x-user': user, 'content-type': 'application/json' });
    if (key !== null) headers.set('idempotency-key', key);
    const payment = { method: 'POST', headers, body: JSON.stringify({ amount: 5 }) };
    const response = await fetch(`${url}/payments`, payment);
    return `${response.status} ${await response.text()}`;
  };
  return { pay, kept: answers.kept };
}

describe('the idempotent endpoint of the guide', () => {
  it('pays once for calls with one key, and answers each of them', async () => {
    const { pay, kept } = await startPayments();

    const answers = await Promise.all(Array.from({ length: 5 }, () => pay('ann', 'order-7')));

    expect(new Set(answers)).toEqual(new Set(['201 paid 5']));
    expect(kept).toEqual(['payment:ann:order-7']);
  });

  it("takes one user's key for that user's alone", async () => {
    const { pay, kept } = await startPayments();

    await Promise.all([pay('ann', 'order-7'), pay('ben', 'order-7')]);

    expect(kept.sort()).toEqual(['payment:ann:order-7', 'payment:ben:order-7']);
  });

  it.each([null, '', 'a:b', 'x'.repeat(201)])('refuses a call with the key %p', async (key) => {
    const { pay, kept } = await startPayments();

    expect(await pay('ann', key)).toMatch(/^400 .*Idempotency-Key/);
    expect(kept).toEqual([]);
  });
});
