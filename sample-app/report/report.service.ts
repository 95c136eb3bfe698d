import { Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { Locked, seconds } from 'nestjs-locked';

import { heldLock } from '../held-lock.js';
import { FencedStore } from '../store/fenced-store.js';

const REPORT = 'nightly-report';

export interface Report {
  readonly pieces: number;
  readonly fencingToken: number;
}

@Injectable()
export class ReportService {
  readonly #logger = new Logger(ReportService.name);

  constructor(private readonly store: FencedStore) {}

  /**
   * Counts all pieces. Cron fires in every replica, but only one runs the job: the others do not
   * wait (`wait: 0`) and do not fail (`onTaken: 'skip'`; they get undefined). The lock is kept for
   * a while after the work: otherwise a replica whose clock is seconds slow would run it again.
   */
  @Cron(process.env.REPORT_CRON ?? CronExpression.EVERY_MINUTE)
  @Locked(REPORT, { wait: 0, onTaken: 'skip', holdAtLeast: seconds(20) })
  async run(): Promise<Report | undefined> {
    const { signal, fencingToken } = heldLock();
    let pieces = 0;
    for (const name of await this.store.names()) {
      // Nobody else may be doing this work now: stop as soon as the lock is lost.
      signal.throwIfAborted();
      if (name.startsWith('sku:')) pieces += (await this.store.peek(name)) ?? 0;
    }
    await this.store.write({ [REPORT]: pieces }, fencingToken);
    this.#logger.log(`${pieces} pieces in stock (fencing token ${fencingToken})`);
    return { pieces, fencingToken };
  }
}
