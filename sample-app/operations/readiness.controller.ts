import { Controller, Get } from '@nestjs/common';
import { HealthCheck, HealthCheckService, type HealthCheckResult } from '@nestjs/terminus';
import { RedlockHealthIndicator } from 'nestjs-locked/terminus';

/** For a load balancer: 200 while locks can be had here, otherwise 503. */
@Controller('ready')
export class ReadinessController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: RedlockHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  ready(): Promise<HealthCheckResult> {
    return this.health.check([() => this.locks.isHealthy('locks')]);
  }
}
