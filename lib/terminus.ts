// The public names of `nestjs-locked/terminus`, and all of them.
export {
  RedlockHealthIndicator,
  type RedlockHealth,
  type RedlockHealthOptions,
  type RedlockNodeHealth,
} from './terminus/redlock.health-indicator.js';
