import { checkEnvironment, systemEnvironment, type Environment } from '../core/environment.js';
import { isLockNode, type LockNode } from '../core/lock-node.js';
import { checkNames, checkObject, checkText, wrongType } from '../core/option-checks.js';
import { MemoryNode } from '../nodes/memory-node.js';

/** Options of {@link FaultyNode}. */
export interface FaultyNodeOptions {
  /** The real node inside. Several may share one. @default an empty `MemoryNode` */
  readonly node?: LockNode | undefined;
  /** Names the node in errors and logs. @default the name of the node inside */
  readonly name?: string | undefined;
  /** Where latency is measured. @default the process's clocks and timers */
  readonly environment?: Environment | undefined;
}

/** {@link FaultyNodeOptions}, checked and complete. */
interface ResolvedFaultyNode {
  readonly node: LockNode;
  readonly name: string;
  readonly environment: Environment;
}

const OPTIONS: Readonly<Record<keyof FaultyNodeOptions, true>> = {
  node: true,
  name: true,
  environment: true,
};

/** @throws TypeError for an unknown option or a bad one, or a node in place of the options. */
export function resolveFaultyNode(options: FaultyNodeOptions): ResolvedFaultyNode {
  checkObject('options', options);
  // The compiler takes it for options, as it has a name: this node would be over another one.
  if ('acquire' in options) throw new TypeError('Expected { node }, got the node itself');
  checkNames('only options of FaultyNodeOptions', options, OPTIONS);
  const { environment = systemEnvironment } = options;
  checkEnvironment(environment);
  const { node = new MemoryNode({ environment }) } = options;
  if (!isLockNode(node)) throw wrongType('node', 'a LockNode', node);
  const { name = node.name } = options;
  return { node, name: checkText('name', name), environment };
}
