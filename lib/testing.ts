// The public names of `nestjs-locked/testing`, and all of them.
export { fakeTimersEnvironment } from './core/environment.js';
export {
  FaultyNode,
  type FaultyNodeOptions,
  type Latency,
  type NodeFault,
  type NodeOperation,
  type RecordedCall,
} from './testing/faulty-node.js';
