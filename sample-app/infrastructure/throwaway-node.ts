import type { Milliseconds } from 'nestjs-locked';

import { DelayedLink } from './delayed-link.js';
import { RedisServer } from './redis-server.js';

/** What has been done to a node's process; `killed` by whomever. */
export type ProcessState = 'running' | 'frozen' | 'killed';

/** A lock node of our own that may be broken: a throwaway server, reached over a link. */
export class ThrowawayNode {
  #isFrozen = false;

  private constructor(
    private readonly server: RedisServer,
    private readonly link: DelayedLink,
  ) {}

  /** Starts an empty server that ends with this process. */
  static async start(): Promise<ThrowawayNode> {
    const server = await RedisServer.start();
    return new ThrowawayNode(server, await DelayedLink.open(server.port));
  }

  get url(): string {
    return `redis://127.0.0.1:${this.link.port}`;
  }

  get state(): ProcessState {
    if (this.server.hasEnded) return 'killed';
    return this.#isFrozen ? 'frozen' : 'running';
  }

  /** How much later than they could its answers come, in ms. */
  get delay(): Milliseconds {
    return this.link.delay;
  }

  set delay(delay: Milliseconds) {
    this.link.delay = delay;
  }

  /** It accepts, and answers nothing. Does nothing to one that does not run. */
  freeze(): void {
    if (this.state !== 'running') return;
    this.server.freeze();
    this.#isFrozen = true;
  }

  /** Lets it go on. Does nothing to one that is not frozen. */
  thaw(): void {
    if (this.state !== 'frozen') return;
    this.server.thaw();
    this.#isFrozen = false;
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    await this.server.kill();
  }

  /** Starts an empty server in its place: it has forgotten all of its locks. */
  async restart(): Promise<void> {
    await this.server.restart();
    this.#isFrozen = false;
  }
}
