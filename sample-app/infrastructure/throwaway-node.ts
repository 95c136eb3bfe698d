import type { Milliseconds } from 'nestjs-locked';

import { DelayedLink } from './delayed-link.js';
import { RedisServer } from './redis-server.js';

/** What has been done to a node's process; `killed` whoever did it. */
export type ProcessState = 'running' | 'frozen' | 'killed';

/** A lock node that we started and may break: a throwaway server, reached over a link. */
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

  /** By how much its answers are delayed, in ms. */
  get delay(): Milliseconds {
    return this.link.delay;
  }

  set delay(delay: Milliseconds) {
    this.link.delay = delay;
  }

  /** Freezes it: it accepts, but answers nothing. No effect unless it runs. */
  freeze(): void {
    if (this.state !== 'running') return;
    this.server.freeze();
    this.#isFrozen = true;
  }

  /** Lets it go on. No effect unless it is frozen. */
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
