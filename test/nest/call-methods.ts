// The `@Locked` methods of calls at random, one for each kind of result.
import { Injectable } from '@nestjs/common';
import { Locked, type Lock, type LockedResource } from 'nestjs-locked';
import { defer, Observable } from 'rxjs';

import { element } from '../simulation/random.js';
import { DOMAINS, type DomainName } from './call-domains.js';
import type { Call, Request } from './calls.js';

/** So short that locks are lost, waits are in vain, and what nobody reads on ends soon; in ms. */
export const options = { ttl: 300, wait: 150, maxHold: 2_000 };

/** What a method is called with; at an endpoint, the request. */
export interface Visit {
  readonly call: Call;
}

/** What the methods do. */
export interface Bodies {
  /** Under this lock, or the one that the context has. */
  runOnce(call: Call, lock?: Lock): Promise<string>;
  runInSteps(call: Call): AsyncGenerator<string, string>;
  runWhileObserved(call: Call): Observable<string>;
  /** Where others hold the lock. */
  doWithout(call: Call): Promise<string>;
}

/** One service for each domain, and way to deal with what the context has, and what others have. */
export class Services {
  readonly all: readonly Service[];

  constructor(bodies: Bodies, resource: LockedResource) {
    this.all = DOMAINS.flatMap((domain) =>
      [false, true].flatMap((isReentrant) =>
        [false, true].map((isOptional) =>
          serviceOf(bodies, resource, { domain, isReentrant, isOptional }),
        ),
      ),
    );
  }

  of({ domain, isReentrant, isOptional }: Request): Service {
    const place = 4 * DOMAINS.indexOf(domain.name) + 2 * Number(isReentrant) + Number(isOptional);
    return element(this.all, place);
  }
}

interface Wishes {
  readonly domain: DomainName;
  readonly isReentrant: boolean;
  readonly isOptional: boolean;
}

type Service = ReturnType<typeof serviceOf>;

function serviceOf(
  bodies: Bodies,
  resource: LockedResource,
  { domain, isReentrant, isOptional }: Wishes,
) {
  const wishes = { ...options, redlock: domain, reentrant: isReentrant };
  const doWithout = ({ call }: Visit): Promise<string> => bodies.doWithout(call);
  const orElse = <Fallback>(fallback: Fallback): Fallback | 'throw' =>
    isOptional ? fallback : 'throw';
  @Injectable()
  class Methods {
    @Locked(resource, { ...wishes, onTaken: orElse(doWithout) })
    promise({ call }: Visit): Promise<string> {
      return bodies.runOnce(call);
    }

    @Locked(resource, { ...wishes, onTaken: orElse(inSteps(doWithout)) })
    async *steps({ call }: Visit): AsyncGenerator<string, string> {
      return yield* bodies.runInSteps(call);
    }

    @Locked(resource, {
      ...wishes,
      onTaken: orElse((visit: Visit) => defer(() => doWithout(visit))),
    })
    values({ call }: Visit): Observable<string> {
      return bodies.runWhileObserved(call);
    }
  }
  return Methods;
}

function inSteps(run: (visit: Visit) => Promise<string>) {
  return async function* (visit: Visit): AsyncGenerator<string, string> {
    yield 'step';
    return await run(visit);
  };
}
