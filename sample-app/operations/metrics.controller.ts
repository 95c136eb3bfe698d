import type { IncomingMessage, ServerResponse } from 'node:http';

import { Controller, Get, Req, Res } from '@nestjs/common';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';

/** For Prometheus: in an application of yours, on a port that is not public. */
@Controller('metrics')
export class MetricsController {
  constructor(private readonly exporter: PrometheusExporter) {}

  @Get()
  metrics(@Req() request: IncomingMessage, @Res() response: ServerResponse): void {
    this.exporter.getMetricsRequestHandler(request, response);
  }
}
