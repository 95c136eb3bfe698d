import {
  Body,
  Controller,
  Get,
  HttpCode,
  Param,
  ParseBoolPipe,
  Post,
  UseGuards,
} from '@nestjs/common';
import { RedlockService, type ResourceState } from 'nestjs-locked';

import { lockOptions } from '../lock-options.js';
import { PatternPipe, resourcePipe } from '../pipes/pattern.pipe.js';
import { WholeNumberPipe } from '../pipes/whole-number.pipe.js';
import { HandLocks, type HandLock } from './hand-locks.js';
import { NodeWatch } from './node-watch.js';
import { SameOriginGuard } from './same-origin.guard.js';

const ttlPipe = new WholeNumberPipe({ min: 100, max: lockOptions.ttlMax });
const ownerPipe = new PatternPipe(/^[\w:.-]{1,100}$/);

/** Locks by hand. 423 and 503 with `Retry-After` come from the library. */
@Controller('lab/locks/:resource')
@UseGuards(SameOriginGuard)
export class HandLocksController {
  constructor(
    private readonly locks: HandLocks,
    private readonly redlock: RedlockService,
    private readonly watch: NodeWatch,
  ) {}

  @Get()
  async inspect(@Param('resource', resourcePipe) resource: string): Promise<ResourceState> {
    return this.redlock.inspect(resource);
  }

  @Post('acquire')
  async acquire(
    @Param('resource', resourcePipe) resource: string,
    @Body('ttl', ttlPipe) ttl: number,
    @Body('wait', new WholeNumberPipe({ min: 0, max: 10_000 })) wait: number,
    @Body('watchdog', ParseBoolPipe) watchdog: boolean,
  ): Promise<HandLock> {
    this.watch.tried = resource;
    return this.locks.acquire(resource, { ttl, wait, watchdog });
  }

  @Post('extend')
  @HttpCode(200)
  async extend(
    @Body('ownerId', ownerPipe) ownerId: string,
    @Body('ttl', ttlPipe) ttl: number,
  ): Promise<HandLock> {
    return this.locks.extend(ownerId, ttl);
  }

  @Post('release')
  @HttpCode(204)
  async release(@Body('ownerId', ownerPipe) ownerId: string): Promise<void> {
    await this.locks.release(ownerId);
  }
}
