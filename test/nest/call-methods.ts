// The `@Locked` methods of calls at random, one for each kind of result.
import { Injectable } from '@nestjs/common';
import { Locked, type LockedResource } from 'nestjs-locked';
import { Observable } from 'rxjs';

import type { Call } from './call-model.js';

/** So short that locks are lost, waits are in vain, and what nobody reads on ends soon; in ms. */
export const options = { ttl: 300, wait: 150, maxHold: 2_000 };

/** What a method is called with; at an endpoint, the request. */
export interface Visit {
  readonly call: Call;
}

/** What the methods do. */
export interface Bodies {
  runOnce(call: Call): Promise<string>;
  runInSteps(call: Call): AsyncGenerator<string, string>;
  runWhileObserved(call: Call): Observable<string>;
}

/** Two services, of which one joins the locks that its calls find in their context. */
export interface Services {
  readonly joining: Service;
  readonly refusing: Service;
}

type Service = ReturnType<typeof serviceOf>;

export function servicesOf(bodies: Bodies, resource: LockedResource): Services {
  return {
    joining: serviceOf(bodies, resource, true),
    refusing: serviceOf(bodies, resource, false),
  };
}

function serviceOf(bodies: Bodies, resource: LockedResource, reentrant: boolean) {
  @Injectable()
  class Methods {
    @Locked(resource, { ...options, reentrant })
    promise({ call }: Visit): Promise<string> {
      return bodies.runOnce(call);
    }

    @Locked(resource, { ...options, reentrant })
    async *steps({ call }: Visit): AsyncGenerator<string, string> {
      return yield* bodies.runInSteps(call);
    }

    @Locked(resource, { ...options, reentrant })
    values({ call }: Visit): Observable<string> {
      return bodies.runWhileObserved(call);
    }
  }
  return Methods;
}
