// Names of resources that come from requests, as docs/CHOOSING.md says.
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Param, ParseIntPipe, Post } from '@nestjs/common';
import { fromContext, Locked, type Resources } from 'nestjs-locked';

import { eventually } from '../support/eventually.js';
import { startServer } from './support/applications.js';
import { get, requestOf } from './support/requests.js';

let inside = 0;
let most = 0;

beforeEach(() => {
  most = 0;
});

/** Lasts until `others` are inside too, and 50 ms more, in case somebody else comes. */
async function pay(id: number, others: number): Promise<void> {
  expect(id).toBe(42);
  inside += 1;
  most = Math.max(most, inside);
  await eventually(() => most > others);
  await new Promise((resolve) => setTimeout(resolve, 50));
  inside -= 1;
}

const idIn = (read: (id: string) => string | number) =>
  fromContext((context): Resources => `order:${read(requestOf(context).params.id ?? '')}`);

@Controller()
class Orders {
  @Post('text/:id')
  @Locked(idIn(String), { wait: 5_000 })
  text(@Param('id', ParseIntPipe) id: number): Promise<void> {
    return pay(id, 1);
  }

  @Post('number/:id')
  @Locked(idIn(Number), { wait: 5_000 })
  number(@Param('id', ParseIntPipe) id: number): Promise<void> {
    return pay(id, 0);
  }

  @Post('argument/:id')
  @Locked((id: number) => `order:${id}`, { wait: 5_000 })
  argument(@Param('id', ParseIntPipe) id: number): Promise<void> {
    return pay(id, 0);
  }
}

describe('an id that two requests write in two ways, which a pipe takes for one', () => {
  it.each([
    ['text', 2],
    ['number', 1],
    ['argument', 1],
  ])('is locked as what it is read as: %s, by %i at once', async (path, expected) => {
    const { url } = await startServer({ controllers: [Orders] });

    const responses = await Promise.all(
      ['42', '042'].map((id) => get(url, `/${path}/${id}`, { method: 'POST' })),
    );

    expect(responses.map(({ status }) => status)).toEqual([201, 201]);
    expect(most).toBe(expected);
  });
});
