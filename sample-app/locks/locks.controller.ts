import { Controller, Get, Query } from '@nestjs/common';
import { RedlockService, type RedlockStatus, type ResourceState } from 'nestjs-locked';

import { optionalResourcePipe } from '../pipes/pattern.pipe.js';

/** For operators: in an application of yours, put a guard before it. */
@Controller('locks')
export class LocksController {
  constructor(private readonly redlock: RedlockService) {}

  /** How the nodes are, and with `?resource=sku:apple` who holds that. */
  @Get('status')
  async status(
    @Query('resource', optionalResourcePipe) resource?: string,
  ): Promise<RedlockStatus & { resource?: ResourceState }> {
    const status = await this.redlock.status();
    if (resource === undefined) return status;
    return { ...status, resource: await this.redlock.inspect(resource) };
  }
}
