// Calls of the Nest layer at random, in virtual time: two applications of two lock domains each lock
// over the same nodes, by hand, by `using`, by `@Locked` methods of several kinds and by endpoints,
// and their bodies call more, whose ends they await or not. Whatever fails, each call gets and gives
// what the model in call-model.ts says, no two bodies have one resource at once, losses are told, and
// in the end nothing is left.
import { AsyncLocalStorage } from 'node:async_hooks';

import type { Lock } from 'nestjs-locked';
import { concat, defer, finalize, from, of, type Observable } from 'rxjs';

import { remainsOf } from '../core/play-checks.js';
import { setScene, type Scene } from '../core/scene.js';
import { Random } from '../simulation/random.js';
import { Client, TRANSPORTS } from './call-clients.js';
import { startDomains, type Domain } from './call-domains.js';
import { WITHOUT } from './call-faults.js';
import { CallModel, PAUSE_MAX } from './call-model.js';
import type { Reader, Stage } from './call-stage.js';
import { isOrigin, type Body, type Call, type Request, type Way } from './calls.js';
import { EndpointPlay, LITERAL } from './endpoint-play.js';
import { ServicePlay } from './service-play.js';

const RESOURCES = ['a', 'b', 'c'];
const WAYS: readonly Way[] = [
  'acquire',
  'using',
  'promise',
  'steps',
  'values',
  'literal',
  'context',
  'arguments',
];
const STEPS = 40;
const CALLS_MAX = 20;
const CONTEXTS_MAX = 10;

/** One play: its own nodes, lock domains and calls, all drawn from its seed. */
export class CallPlay implements Stage {
  readonly findings: readonly string[];
  readonly dice: Random;
  readonly model: CallModel;
  readonly #scene: Scene;
  #domains: readonly Domain[] = [];
  readonly #services: ServicePlay;
  readonly #endpoints: EndpointPlay;
  /** Async contexts to call in from elsewhere, also after the end of the body each is of. */
  readonly #contexts: { readonly run: (act: () => void) => void; readonly of: Body | null }[] = [];
  /** Whether nodes forget locks here, so that two bodies may have one resource. */
  readonly #isForgetful: boolean;
  #closing = 0;
  #isEnding = false;

  constructor(readonly seed: number) {
    this.dice = new Random(seed, 1);
    this.#scene = setScene({ seed, nodes: this.dice.pick([1, 2, 3, 5]) });
    this.#isForgetful = this.dice.chance(0.2);
    this.model = new CallModel(seed, this.#scene.environment, this.#isForgetful);
    this.findings = this.model.findings;
    this.#services = new ServicePlay(this);
    this.#endpoints = new EndpointPlay(this);
  }

  async run(): Promise<void> {
    const providers = [...this.#services.providers, ...this.#endpoints.providers];
    this.#domains = await startDomains(this.#scene, { providers });
    this.#contexts.push({ run: AsyncLocalStorage.snapshot(), of: null });
    for (let step = 0; step < STEPS; step += 1) {
      this.#act();
      await this.#scene.environment.advance(this.upTo(30));
      this.model.checkOpen();
      this.model.checkEnded();
    }
    await this.#end();
  }

  #act(): void {
    const { environment, nodes } = this.#scene;
    const node = this.dice.pick(nodes);
    const context = this.dice.pick(this.#contexts);
    const choice = this.dice.next();
    if (choice < 0.5) void this.#call(null);
    else if (choice < 0.65) context.run(() => void this.#call(context.of));
    else if (choice < 0.7) node.hang();
    else if (choice < 0.8) node.heal();
    else if (choice < 0.85) node.delay({ request: this.upTo(20), answer: this.upTo(20) });
    else if (choice < 0.9) node.fail(this.dice.pick(['down', 'answerLost', 'answerOdd']));
    else if (choice < 0.95) environment.block(this.upTo(400));
    else if (choice < 0.96) this.#close(this.dice.pick(this.#domains));
    else if (this.#isForgetful) for (const each of nodes) each.lose();
  }

  #close({ application }: Domain): void {
    this.#closing += 1;
    void application.close().then(() => (this.#closing -= 1));
  }

  /** Makes a call in the running context, which is that of `inside`. */
  #call(inside: Body | null): Promise<void> {
    this.model.checkContext(inside);
    if (this.#isEnding || this.model.callCount >= CALLS_MAX) return Promise.resolve();
    const request = this.#request(inside);
    if (this.dice.chance(0.2)) {
      this.#scene.environment.schedule(this.upTo(150), () => request.client.leave(this.model.now));
    }
    return this.#make(request);
  }

  async #make(request: Request): Promise<void> {
    const { way } = request;
    await (isOrigin(way) ? this.#endpoints.ask(request, way) : this.#services.ask(request));
    this.model.checkClient(request);
  }

  #request(inside: Body | null): Request {
    const way = this.dice.pick(WAYS);
    const wanted = RESOURCES.filter(() => this.dice.chance(0.5));
    // What the surrounding body holds is of most interest.
    const any = this.dice.pick(this.#domains);
    return {
      way,
      inside,
      domain: this.dice.chance(0.6) ? (inside?.call.domain ?? any) : any,
      resources: way === 'literal' ? LITERAL : wanted.length > 0 ? wanted : RESOURCES,
      isReentrant: this.dice.chance(0.6),
      isOptional: way !== 'using' && this.dice.chance(0.3),
      client: new Client(isOrigin(way) ? this.dice.pick(TRANSPORTS) : null),
    };
  }

  async #callLater(inside: Body | null): Promise<void> {
    await this.sleep(this.dice.next() ** 3 * 200);
    return this.#call(inside);
  }

  async readSteps(iterable: AsyncIterable<unknown, unknown>, reader: Reader): Promise<unknown> {
    const { client, inside, isRude } = reader;
    const steps = iterable[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await steps.next();
      this.model.checkContext(inside);
      if (done === true) return value;
      if (this.dice.chance(0.5)) await this.sleep(this.upTo(PAUSE_MAX));
      if (!client.hasLeft) continue;
      return isRude && this.dice.chance(0.5) ? 'left' : steps.return?.('left');
    }
  }

  async runOnce(call: Call, lock?: Lock): Promise<string> {
    const body = this.model.enter(call, lock);
    try {
      for (let count = this.upTo(3); count >= 0; count -= 1) await this.actIn(body);
      return this.#finish(body);
    } finally {
      body.end();
    }
  }

  async *runInSteps(call: Call): AsyncGenerator<string, string> {
    const body = this.model.enter(call);
    try {
      yield* this.#stepsFrom(body);
      return this.#finish(body);
    } finally {
      body.end();
    }
  }

  /** Where it is left, what it has begun goes on. */
  runWhileObserved(call: Call): Observable<string> {
    return defer(() => {
      const body = this.model.enter(call);
      const result = defer(() => of(this.#finish(body)));
      return concat(from(this.#stepsFrom(body)), result).pipe(finalize(() => body.end()));
    });
  }

  async doWithout(call: Call): Promise<string> {
    this.model.enterWithout(call);
    await this.actIn(call.inside);
    if (this.dice.chance(0.3)) throw (call.failure = new Error('of doing without'));
    return WITHOUT;
  }

  async *#stepsFrom(body: Body): AsyncGenerator<string, void> {
    for (let count = this.upTo(3); count >= 0; count -= 1) {
      await this.actIn(body);
      yield 'step';
      this.model.checkContext(body);
      // Who gets the step may leave at once, and nothing is to begin in the same tick.
      await this.sleep(this.upTo(5));
    }
  }

  /** Something that a body does. */
  async actIn(body: Body | null): Promise<void> {
    if (this.#contexts.length < CONTEXTS_MAX && this.dice.chance(0.2)) {
      this.#contexts.push({ run: AsyncLocalStorage.snapshot(), of: body });
    }
    const choice = this.dice.next();
    if (choice < 0.2) await this.#call(body);
    else if (choice < 0.3) await Promise.all([this.#call(body), this.#callLater(body)]);
    else if (choice < 0.5) void this.#call(body);
    else if (choice < 0.7) void this.#callLater(body);
    // Has no effect.
    else if (body !== null && isJoined(body)) await body.lock.release();
    // What has begun just now might end in one tick with the body, before or after it.
    await this.sleep(1 + this.upTo(30));
    this.model.checkContext(body);
  }

  #finish(body: Body): string {
    if (this.dice.chance(0.3)) void this.#leaveSoon();
    if (this.dice.chance(0.2)) throw (body.error = new Error('of the body'));
    return (body.result = `result ${this.upTo(1_000)}`);
  }

  /** Lets somebody leave in the tick in which his lock may come. */
  async #leaveSoon(): Promise<void> {
    for (let turns = this.dice.integer(0, 40); turns > 0; turns -= 1) await Promise.resolve();
    const { waiting } = this.model;
    if (waiting.length > 0) this.dice.pick(waiting).leave(this.model.now);
  }

  async #end(): Promise<void> {
    const { environment, nodes } = this.#scene;
    this.#isEnding = true;
    for (const node of nodes) node.heal();
    await environment.advance(8_000);
    this.model.checkAllEnded();
    if (this.#closing > 0) this.model.find('an application never closes');
    const services = this.#domains.map(({ redlock }) => redlock);
    this.model.find(...(await remainsOf(this.#scene, services, RESOURCES)));
  }

  sleep(duration: number): Promise<void> {
    return new Promise((resolve) => this.#scene.environment.schedule(duration, resolve));
  }

  upTo(limit: number): number {
    return this.dice.next() * limit;
  }
}

/** Whether its lock is one that it does not release. */
function isJoined({ lock, owner }: Body): boolean {
  // The handler of an endpoint runs under the very lock of the response.
  return owner !== null && owner.lock !== lock;
}
