// Calls of the Nest layer at random, in virtual time: two applications lock over the same nodes, by
// `using` and by `@Locked` methods of several kinds, and their bodies call more, whose ends they
// await or not. Whatever fails, each call gets and gives what the model in call-model.ts says, no
// two bodies have one resource at once, losses are told, and in the end nothing is left.
import { AsyncLocalStorage } from 'node:async_hooks';

import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { Locked, LockLostError, RedlockService, type Lock } from 'nestjs-locked';
import { defer, finalize, from, fromEvent, lastValueFrom, Observable, takeUntil, tap } from 'rxjs';

import { remainsOf } from '../core/play-checks.js';
import { setScene, type Scene } from '../core/scene.js';
import { element, Random } from '../simulation/random.js';
import { startModule } from './support/applications.js';
import { CallModel, PAUSE_MAX, type Body, type Call, type Way } from './call-model.js';

const RESOURCES = ['a', 'b', 'c'];
const WAYS: readonly Way[] = ['using', 'promise', 'steps', 'values'];
const STEPS = 40;
const CALLS_MAX = 20;
const CONTEXTS_MAX = 10;

const settings = { quarantine: false, shutdownTimeout: 200 };
/** So short that locks are lost, waits are in vain, and what nobody reads on ends soon; in ms. */
const options = { ttl: 300, wait: 150, maxHold: 2_000 };

/** One play: its own nodes, applications and calls, all drawn from its seed. */
export class CallPlay {
  readonly findings: readonly string[];
  readonly #dice: Random;
  readonly #scene: Scene;
  readonly #applications: TestingModule[] = [];
  readonly #refusing = methodsOf(this, false);
  readonly #joining = methodsOf(this, true);
  readonly #model: CallModel;
  /** Async contexts to call in from elsewhere, also after the end of the body each is of. */
  readonly #contexts: { readonly run: (act: () => void) => void; readonly of: Body | null }[] = [];
  /** Whether nodes forget locks here, so that two bodies may have one resource. */
  readonly #isForgetful: boolean;
  #closing = 0;
  #isEnding = false;

  constructor(readonly seed: number) {
    this.#dice = new Random(seed, 1);
    this.#scene = setScene({ seed, nodes: this.#dice.pick([1, 2, 3, 5]) });
    this.#isForgetful = this.#dice.chance(0.2);
    this.#model = new CallModel(seed, this.#scene.environment, this.#isForgetful);
    this.findings = this.#model.findings;
  }

  async run(): Promise<void> {
    const { environment, nodes } = this.#scene;
    const metadata = { providers: [this.#refusing, this.#joining] };
    for (let count = 0; count < 2; count += 1) {
      const application = await startModule(metadata, { ...settings, environment }, nodes);
      this.#applications.push(application);
    }
    this.#contexts.push({ run: AsyncLocalStorage.snapshot(), of: null });
    for (let step = 0; step < STEPS; step += 1) {
      this.#act();
      await environment.advance(this.#upTo(30));
      this.#model.checkOpen();
    }
    await this.#end();
  }

  #act(): void {
    const { environment, nodes } = this.#scene;
    const node = this.#dice.pick(nodes);
    const context = this.#dice.pick(this.#contexts);
    const choice = this.#dice.next();
    if (choice < 0.5) void this.#call(null);
    else if (choice < 0.65) context.run(() => void this.#call(context.of));
    else if (choice < 0.7) node.hang();
    else if (choice < 0.8) node.heal();
    else if (choice < 0.85) node.delay({ request: this.#upTo(20), answer: this.#upTo(20) });
    else if (choice < 0.9) node.fail(this.#dice.pick(['down', 'answerLost', 'answerOdd']));
    else if (choice < 0.95) environment.block(this.#upTo(400));
    else if (choice < 0.96) this.#close(this.#dice.pick(this.#applications));
    else if (this.#isForgetful) for (const each of nodes) each.lose();
  }

  #close(application: TestingModule): void {
    this.#closing += 1;
    void application.close().then(() => (this.#closing -= 1));
  }

  /** Makes a call in the running context, which is that of `inside`. */
  #call(inside: Body | null): Promise<void> {
    this.#model.checkContext(inside);
    if (this.#isEnding || this.#model.callCount >= CALLS_MAX) return Promise.resolve();
    const wanted = RESOURCES.filter(() => this.#dice.chance(0.5));
    // What the surrounding body holds is of most interest.
    const any = this.#dice.integer(0, 1);
    const request = {
      inside,
      application: this.#dice.chance(0.6) ? (inside?.call.application ?? any) : any,
      resources: wanted.length > 0 ? wanted : RESOURCES,
      isReentrant: this.#dice.chance(0.6),
    };
    const abortion = new AbortController();
    const call = this.#model.begin({ ...request, way: this.#dice.pick(WAYS), abortion });
    if (this.#dice.chance(0.2)) {
      this.#scene.environment.schedule(this.#upTo(150), () => abortion.abort());
    }
    return this.#resultOf(call).then(
      (result) => this.#model.end(call, result, undefined),
      (error: unknown) => this.#model.end(call, undefined, error),
    );
  }

  async #callLater(inside: Body | null): Promise<void> {
    await this.#sleep(this.#dice.next() ** 3 * 200);
    return this.#call(inside);
  }

  async #resultOf(call: Call): Promise<unknown> {
    const { abortion, application, isReentrant, resources, way } = call;
    const module = element(this.#applications, application);
    const methods = module.get(isReentrant ? this.#joining : this.#refusing);
    switch (way) {
      case 'using': {
        const body = (lock: Lock): Promise<string> => this.runOnce(call, lock);
        const { signal } = abortion;
        const wishes = { ...options, signal, reentrant: isReentrant };
        return module.get(RedlockService).using(resources, wishes, body);
      }
      case 'promise':
        return methods.promise(call);
      case 'steps':
        return this.#readSteps(call, methods.steps(call));
      case 'values':
        return this.#observe(call, methods.values(call));
    }
  }

  /** Outside of the lock, where the call may be made again. A loss is told from within. */
  #observe({ abortion, inside }: Call, values: Observable<string>): Promise<string> {
    const check = (): void => this.#model.checkContext(inside);
    const onError = (error: unknown): void => {
      if (!(error instanceof LockLostError)) check();
    };
    const isLeft = fromEvent(abortion.signal, 'abort');
    const observed = values.pipe(tap({ complete: check, error: onError }), takeUntil(isLeft));
    return lastValueFrom(observed, { defaultValue: 'left' });
  }

  async #readSteps({ inside, abortion, fate }: Call, steps: AsyncGenerator): Promise<unknown> {
    for (;;) {
      const { done, value } = await steps.next();
      this.#model.checkContext(inside);
      if (done === true) return value;
      if (this.#dice.chance(0.5)) await this.#sleep(this.#upTo(PAUSE_MAX));
      if (!abortion.signal.aborted) continue;
      // A lock of its own ends by its maxHold, and with it what nobody reads on.
      return fate === 'own' && this.#dice.chance(0.5) ? 'left' : steps.return('left');
    }
  }

  async runOnce(call: Call, lock?: Lock): Promise<string> {
    const body = this.#model.enter(call, lock);
    try {
      return await this.#runFrom(body);
    } finally {
      this.#model.leave(body);
    }
  }

  async *runInSteps(call: Call): AsyncGenerator<string, string> {
    const body = this.#model.enter(call);
    try {
      for (let count = this.#upTo(3); count >= 0; count -= 1) {
        await this.#actIn(body);
        yield 'step';
        this.#model.checkContext(body);
      }
      return this.#finish(body);
    } finally {
      this.#model.leave(body);
    }
  }

  /** Where it is left, what it has begun goes on. */
  runWhileObserved(call: Call): Observable<string> {
    return defer(() => {
      const body = this.#model.enter(call);
      return from(this.#runFrom(body)).pipe(finalize(() => this.#model.leave(body)));
    });
  }

  async #runFrom(body: Body): Promise<string> {
    for (let count = this.#upTo(3); count >= 0; count -= 1) await this.#actIn(body);
    return this.#finish(body);
  }

  /** Something that a body does. */
  async #actIn(body: Body): Promise<void> {
    if (this.#contexts.length < CONTEXTS_MAX && this.#dice.chance(0.2)) {
      this.#contexts.push({ run: AsyncLocalStorage.snapshot(), of: body });
    }
    const choice = this.#dice.next();
    if (choice < 0.2) await this.#call(body);
    else if (choice < 0.3) await Promise.all([this.#call(body), this.#callLater(body)]);
    else if (choice < 0.5) void this.#call(body);
    else if (choice < 0.7) void this.#callLater(body);
    // Has no effect.
    else if (body.owner !== null) await body.lock.release();
    // What has begun just now might end in one tick with the body, before or after it.
    await this.#sleep(1 + this.#upTo(30));
    this.#model.checkContext(body);
  }

  #finish(body: Body): string {
    if (this.#dice.chance(0.2)) throw (body.error = new Error('of the body'));
    return (body.result = `result ${this.#upTo(1_000)}`);
  }

  async #end(): Promise<void> {
    const { environment, nodes } = this.#scene;
    this.#isEnding = true;
    for (const node of nodes) node.heal();
    await environment.advance(8_000);
    this.#model.checkAllEnded();
    if (this.#closing > 0) this.#model.find('an application never closes');
    const services = this.#applications.map((application) => application.get(RedlockService));
    this.#model.find(...(await remainsOf(this.#scene, services, RESOURCES)));
  }

  #sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#scene.environment.schedule(duration, resolve));
  }

  #upTo(limit: number): number {
    return this.#dice.next() * limit;
  }
}

/** What Nest makes the services of this play of. */
function methodsOf(play: CallPlay, reentrant: boolean) {
  const name = ({ resources }: Call): readonly string[] => resources;

  @Injectable()
  class Methods {
    @Locked(name, { ...options, reentrant })
    promise(call: Call): Promise<string> {
      return play.runOnce(call);
    }

    @Locked(name, { ...options, reentrant })
    async *steps(call: Call): AsyncGenerator<string, string> {
      return yield* play.runInSteps(call);
    }

    @Locked(name, { ...options, reentrant })
    values(call: Call): Observable<string> {
      return play.runWhileObserved(call);
    }
  }
  return Methods;
}
