// What every lock asks the nodes for. Classes rather than literals: see ARCHITECTURE.md, "What a
// lock leaves behind".
import type { OwnerRequest, ReleaseRequest, World } from './lock-node.js';
import type { Microseconds, Milliseconds } from './units.js';

/** What an attempt asks for. */
export class LockRequest implements OwnerRequest {
  constructor(
    readonly world: World,
    readonly resources: readonly string[],
    readonly ownerId: string,
    readonly token: Microseconds,
    readonly ttl: Milliseconds,
  ) {}
}

/** Ends what was asked for, `ttl` being the longest that the keys were given. */
export class LockRelease extends LockRequest implements ReleaseRequest {
  constructor(
    { world, resources, ownerId, token }: OwnerRequest,
    ttl: Milliseconds,
    readonly wakes: boolean,
  ) {
    super(world, resources, ownerId, token, ttl);
  }
}
