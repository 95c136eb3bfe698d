import {
  Body,
  Controller,
  HttpCode,
  Inject,
  NotFoundException,
  Param,
  ParseBoolPipe,
  ParseIntPipe,
  Post,
  Sse,
  UseGuards,
  type MessageEvent,
} from '@nestjs/common';
import type { Observable } from 'rxjs';

import type { ThrowawayNode } from '../infrastructure/throwaway-node.js';
import { WholeNumberPipe } from '../pipes/whole-number.pipe.js';
import { Feed } from './feed.js';
import { LAB_INFRASTRUCTURE, type LabInfrastructure } from './lab-infrastructure.js';
import { logLine } from './lock-events.js';
import { LongJob } from './long-job.js';
import { Sale } from './sale.js';
import { saleLimits } from './sale-limits.js';
import { SameOriginGuard } from './same-origin.guard.js';
import type { JobState, SaleState } from './messages.js';

/** What the page shows, and its switches. */
@Controller('lab')
@UseGuards(SameOriginGuard)
export class LabController {
  constructor(
    @Inject(LAB_INFRASTRUCTURE) private readonly infrastructure: LabInfrastructure,
    private readonly feed: Feed,
    private readonly sale: Sale,
    private readonly job: LongJob,
  ) {}

  // A page that reads too slowly is cut off; it reconnects and gets a snapshot.
  @Sse('events', { maxPendingDataLength: 2_000_000 })
  events(): Observable<MessageEvent> {
    return this.feed.stream();
  }

  @Post('sale/start')
  @HttpCode(200)
  async startSale(
    @Body('stock', new WholeNumberPipe(saleLimits.stock)) stock: number,
    @Body('buyers', new WholeNumberPipe(saleLimits.buyers)) buyers: number,
    @Body('replicas', new WholeNumberPipe(saleLimits.replicas)) replicas: number,
    @Body('section', new WholeNumberPipe(saleLimits.section)) section: number,
    @Body('isLocked', ParseBoolPipe) isLocked: boolean,
    @Body('isEndless', ParseBoolPipe) isEndless: boolean,
  ): Promise<SaleState> {
    return this.sale.start({ stock, buyers, replicas, section, isLocked, isEndless });
  }

  @Post('sale/stop')
  @HttpCode(200)
  stopSale(): SaleState {
    return this.sale.stop();
  }

  @Post('sale/kill-replica')
  @HttpCode(200)
  killReplica(): SaleState {
    return this.sale.killReplica();
  }

  @Post('job/start')
  @HttpCode(200)
  startJob(): JobState {
    return this.job.start();
  }

  @Post('job/stop')
  @HttpCode(200)
  stopJob(): JobState {
    return this.job.stop();
  }

  /** What can be done to a node that this application has started itself. */
  @Post('nodes/:number/:action')
  @HttpCode(204)
  async treat(
    @Param('number', ParseIntPipe) number: number,
    @Param('action') action: string,
  ): Promise<void> {
    const node = this.infrastructure.ownNodes[number - 1];
    if (node === undefined) {
      throw new NotFoundException(`There is no node ${number} that was started here`);
    }
    const treatment = TREATMENTS.get(action);
    if (treatment === undefined) {
      throw new NotFoundException(`Expected one of ${[...TREATMENTS.keys()].join(', ')}`);
    }
    await treatment(node);
    this.feed.log(logLine('action', 'app', `Node ${number}: ${action}`));
  }
}

const TREATMENTS = new Map<string, (node: ThrowawayNode) => void | Promise<void>>([
  ['freeze', (node) => node.freeze()],
  ['thaw', (node) => node.thaw()],
  ['kill', (node) => node.kill()],
  ['restart', (node) => node.restart()],
  ['slow', (node) => void (node.delay = 50)],
  ['quick', (node) => void (node.delay = 0)],
]);
