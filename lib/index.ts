// Every public name of the package's main entry point, and nothing else.
export { seconds, minutes, type Milliseconds } from './core/units.js';
export { resource } from './core/resources.js';
export { Lock } from './core/lock.js';
export {
  LockExpiredError,
  LockLostError,
  LockReentryError,
  LockTakenError,
  NoQuorumError,
  RedlockClosedError,
  RedlockError,
  type LossReason,
  type NodeVote,
  type RedlockErrorCode,
  type RedlockErrorDetails,
} from './core/errors.js';
export {
  type AcquireOptions,
  type RedlockOptions,
  type RetryDelay,
  type UsingOptions,
} from './core/options.js';
export { type LockedBody, type RedlockStatus } from './core/redlock.js';
export { type NodeResourceState, type ResourceState } from './core/inspection.js';

// The port, for those who write their own nodes.
export {
  type AcquireAnswer,
  type ExtendAnswer,
  type FailedAnswer,
  type InspectAnswer,
  type LockNode,
  type NodeStatus,
  type OwnerRequest,
  type ReleaseAnswer,
  type ReleaseRequest,
  type Told,
  type Vote,
  type WakeListener,
  type World,
} from './core/lock-node.js';
export { lowestTokenOf } from './core/fencing.js';
export { type Environment, type TimerHandle } from './core/environment.js';
export { MemoryNode, type MemoryNodeOptions } from './nodes/memory-node.js';
export { type NodeInput, type NodeTraits } from './nodes/node-inputs.js';

export { RedlockModule } from './nest/redlock.module.js';
export {
  type RedlockDomainOptions,
  type RedlockFactoryOptions,
  type RedlockModuleAsyncOptions,
  type RedlockModuleOptions,
  type RedlockNestOptions,
  type RedlockOptionsFactory,
} from './nest/redlock.module-definition.js';
export { getRedlockToken, InjectRedlock } from './nest/redlock.tokens.js';
export { RedlockService } from './nest/redlock.service.js';
export { type ReentrantOptions } from './nest/reentry.js';
export { currentLock } from './nest/lock-context.js';
export { Locked, type LockedDecorator } from './nest/locked.decorator.js';
export { type LockedOptions, type OnTaken, type TakenFunction } from './nest/locked-definition.js';
export {
  fromContext,
  type ContextResource,
  type LockedResource,
  type ResourceFunction,
  type Resources,
} from './nest/locked-resource.js';
export { LockedInterceptor } from './nest/locked.interceptor.js';
export { type RedlockHttpStatus } from './nest/transport-errors.js';
export { type RoundOperation } from './core/observer.js';
export {
  type AcquireMessage,
  type ExtendMessage,
  type LostMessage,
  type NodeMessage,
  type ReleaseMessage,
  type RoundMessage,
} from './nest/telemetry.js';
