import { setTimeout as sleep } from 'node:timers/promises';

import { Controller, Param, Post, Query } from '@nestjs/common';
import { fromContext, Locked, seconds } from 'nestjs-locked';

import { heldLock } from '../held-lock.js';
import { namePipe } from '../pipes/pattern.pipe.js';
import { WholeNumberPipe } from '../pipes/whole-number.pipe.js';

interface Outcome {
  readonly job: string;
  readonly heldFor: string;
  readonly ttl: string;
  readonly fencingToken: number;
}

interface JobRequest {
  readonly params: { readonly job: string };
}

@Controller('slow')
export class SlowController {
  /**
   * Works longer than its ttl of 1 s: the watchdog extends the lock while the work runs. If this
   * process died, the job would be free again 1 s later. Meanwhile others get 423.
   *
   * `fromContext` locks before pipes run: a busy job costs no further work, but the function itself
   * has to validate what it reads.
   */
  @Post(':job')
  @Locked(
    fromContext((context) => {
      const { params } = context.switchToHttp().getRequest<JobRequest>();
      return `slow:${namePipe.transform(params.job, { type: 'param', data: 'job' })}`;
    }),
    { ttl: seconds(1), wait: 0 },
  )
  async run(
    @Param('job') job: string,
    @Query('seconds', new WholeNumberPipe({ min: 1, max: 60 })) duration: number,
  ): Promise<Outcome> {
    const { signal, fencingToken } = heldLock();
    for (let step = 0; step < duration * STEPS_PER_SECOND; step += 1) {
      await sleep(seconds(1) / STEPS_PER_SECOND);
      // When the nodes cannot be reached, the lock is lost: stop before somebody else starts.
      signal.throwIfAborted();
    }
    return { job, heldFor: `${duration} s`, ttl: '1 s', fencingToken };
  }
}

const STEPS_PER_SECOND = 20;
