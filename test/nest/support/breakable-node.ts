// A real memory node that can be taken down, or made to forget.
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  LockNode,
  NodeStatus,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  WakeListener,
  World,
} from 'nestjs-locked';
import { MemoryNode } from 'nestjs-locked';

const down: FailedAnswer = {
  vote: 'failed',
  mayHold: false,
  isMisconfiguration: false,
  message: 'connection refused',
};

export class BreakableNode implements LockNode {
  readonly name: string;
  isDown = false;
  /** Whether extensions find the keys gone, as on a server that lost its memory. */
  isForgetful = false;
  readonly #node: MemoryNode;

  constructor(name: string) {
    this.name = name;
    this.#node = new MemoryNode({ name });
  }

  acquire(request: OwnerRequest, onAnswer: (answer: AcquireAnswer) => void): void {
    if (this.isDown) queueMicrotask(() => onAnswer(down));
    else this.#node.acquire(request, onAnswer);
  }

  extend(request: OwnerRequest, onAnswer: (answer: ExtendAnswer) => void): void {
    if (this.isForgetful) queueMicrotask(() => onAnswer({ vote: 'revoked' }));
    else if (this.isDown) queueMicrotask(() => onAnswer(down));
    else this.#node.extend(request, onAnswer);
  }

  release(request: ReleaseRequest, onAnswer: (answer: ReleaseAnswer) => void): void {
    this.#node.release(request, onAnswer);
  }

  inspect(world: World, resource: string, onAnswer: (answer: InspectAnswer) => void): void {
    this.#node.inspect(world, resource, onAnswer);
  }

  listen(world: World, resource: string, listener: WakeListener): () => void {
    return this.#node.listen(world, resource, listener);
  }

  status(): NodeStatus {
    return this.#node.status();
  }
}

/** Three nodes, of which any number can be broken together. */
export function breakableNodes(): BreakableNode[] {
  return ['a', 'b', 'c'].map((name) => new BreakableNode(name));
}
