// The calls at random of services: by hand, for a body, and of `@Locked` methods of several kinds.
import type { Provider } from '@nestjs/common';
import { LockLostError, type Lock } from 'nestjs-locked';
import { fromEvent, lastValueFrom, takeUntil, tap, type Observable } from 'rxjs';

import { options, Services, type Visit } from './call-methods.js';
import type { Stage } from './call-stage.js';
import type { Call, Request } from './calls.js';

/** Calls the services of the play's lock domains. */
export class ServicePlay {
  readonly providers: readonly Provider[];
  readonly #stage: Stage;
  readonly #services: Services;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#services = new Services(stage, ({ call }: Visit) => call.resources);
    this.providers = this.#services.all;
  }

  /** Makes a call, and reads what it gives. */
  ask(request: Request): Promise<void> {
    const { model } = this.#stage;
    const call = model.begin(request);
    return model.judge(call, this.#resultOf(call));
  }

  async #resultOf(call: Call): Promise<unknown> {
    const { client, domain, isReentrant, resources, way } = call;
    if (way === 'acquire') return this.#runByHand(call);
    const methods = domain.application.get(this.#services.of(call));
    if (way === 'promise') return methods.promise({ call });
    // A lock of its own ends by its maxHold, and with it what nobody reads on.
    const reader = { ...call, isRude: call.fate === 'own' };
    if (way === 'steps') return this.#stage.readSteps(methods.steps({ call }), reader);
    if (way === 'values') return this.#observe(call, methods.values({ call }));
    const body = (lock: Lock): Promise<string> => this.#stage.runOnce(call, lock);
    const wishes = { ...options, signal: client.signal, reentrant: isReentrant };
    return domain.redlock.using(resources, wishes, body);
  }

  /** Where the lock is optional, it is tried for only once. */
  async #runByHand(call: Call): Promise<string> {
    const { client, domain, isOptional, isReentrant, resources } = call;
    const { ttl, ...limits } = options;
    const watchdog = this.#stage.dice.chance(0.5);
    const wishes = { ...limits, watchdog, signal: client.signal, reentrant: isReentrant };
    await using lock = isOptional
      ? await domain.redlock.tryAcquire(resources, ttl, wishes)
      : await domain.redlock.acquire(resources, ttl, wishes);
    if (lock === null) return await this.#stage.doWithout(call);
    return await this.#stage.runOnce(call, lock);
  }

  /** Outside of the lock, where the call may be made again. A loss is told from within. */
  #observe({ client, inside }: Call, values: Observable<string>): Promise<string> {
    const check = (): void => this.#stage.model.checkContext(inside);
    const onError = (error: unknown): void => {
      if (!(error instanceof LockLostError)) check();
    };
    const isLeft = fromEvent(client.signal, 'abort');
    const observed = values.pipe(tap({ complete: check, error: onError }), takeUntil(isLeft));
    return lastValueFrom(observed, { defaultValue: 'left' });
  }
}
