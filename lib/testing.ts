// The public names of `nestjs-locked/testing`, and all of them.
export { fakeTimersEnvironment } from './core/environment.js';
export { FaultyNode, type RecordedCall } from './testing/faulty-node.js';
export { type FaultyNodeOptions } from './testing/faulty-node-options.js';
export { type Latency, type NodeFault, type NodeOperation } from './testing/node-faults.js';
