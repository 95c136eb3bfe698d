// Whether calls that wait for one lock find the answer of the first in a cache.
import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Query,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { fromContext, Locked } from 'nestjs-locked';
import { of, tap, type Observable } from 'rxjs';

import { eventually } from '../support/eventually.js';
import { startServer } from './support/applications.js';
import { get } from './support/requests.js';

const answers = new Map<string, unknown>();
let arrived = 0;
let runs = 0;

beforeEach(() => {
  answers.clear();
  arrived = 0;
  runs = 0;
});

/** Asks and fills the cache where Nest's `CacheInterceptor` does. */
class Cache implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { name } = context.getHandler();
    if (answers.has(name)) return of(answers.get(name));
    return next.handle().pipe(tap((answer: unknown) => void answers.set(name, answer)));
  }
}

const counter: CanActivate = {
  canActivate() {
    arrived += 1;
    return true;
  },
};

/** Ends when all have asked. */
async function work(report = '7'): Promise<string> {
  runs += 1;
  await eventually(() => arrived === 3);
  return `run ${runs} of ${report}`;
}

@Controller()
@UseGuards(counter)
@UseInterceptors(Cache)
class Reports {
  @Get('literal')
  @Locked('report', { wait: 5_000 })
  literal(): Promise<string> {
    return work();
  }

  @Get('context')
  @Locked(fromContext(() => 'report'), { wait: 5_000 })
  context(): Promise<string> {
    return work();
  }

  @Get('arguments')
  @Locked((id: string) => `report:${id}`, { wait: 5_000 })
  arguments(@Query('id') id: string): Promise<string> {
    return work(id);
  }
}

describe('an inner interceptor that caches', () => {
  async function askThrice(path: string): Promise<string[]> {
    const { url } = await startServer({ controllers: [Reports] });
    const responses = await Promise.all([1, 2, 3].map(() => get(url, `/${path}?id=7`)));
    return responses.map(({ body }) => body).sort();
  }

  it.each(['literal', 'context'])(
    'gives the answer of the first call to those that waited for the lock (%s)',
    async (path) => {
      expect(await askThrice(path)).toEqual(['run 1 of 7', 'run 1 of 7', 'run 1 of 7']);
    },
  );

  it('is asked too early where the resource is a function of the arguments', async () => {
    expect(await askThrice('arguments')).toEqual(['run 1 of 7', 'run 2 of 7', 'run 3 of 7']);
  });
});
