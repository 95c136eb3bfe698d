import { Module, type DynamicModule } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { RedlockTelemetryModule } from 'nestjs-locked/opentelemetry';
import { RedlockHealthIndicator } from 'nestjs-locked/terminus';

import { MetricsController } from './metrics.controller.js';
import { ReadinessController } from './readiness.controller.js';

/** What operators see: whether a replica is ready, and its metrics. */
@Module({})
export class OperationsModule {
  static register(): DynamicModule {
    const exporter = new PrometheusExporter({ preventServerStart: true });
    const meterProvider = new MeterProvider({ readers: [exporter] });
    return {
      module: OperationsModule,
      imports: [
        TerminusModule,
        // Resources are sku:apple, account:bob, slow:import, report: a handful of classes.
        RedlockTelemetryModule.forRoot({
          meterProvider,
          resourceClass: (resource) => resource.split(':')[0],
        }),
      ],
      controllers: [MetricsController, ReadinessController],
      providers: [RedlockHealthIndicator, { provide: PrometheusExporter, useValue: exporter }],
    };
  }
}
