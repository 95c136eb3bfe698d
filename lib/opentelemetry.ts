// The public names of `nestjs-locked/opentelemetry`, and all of them.
export {
  RedlockTelemetryModule,
  type RedlockTelemetryOptions,
} from './opentelemetry/redlock-telemetry.module.js';
