import type { ReleaseRequest, WakeListener } from '../../lib/core/lock-node.js';
import { wakeChannel } from './script-model.js';
import type { Link } from './link.js';
import type { SimulatedEnvironment } from './simulated-machine.js';

/** A subscription, over all connections. */
interface Ear {
  readonly channel: string;
  readonly listener: WakeListener;
  isLive: boolean;
  stop: () => void;
}

/** What an adapter listens for on its server. */
export class SimulatedEars {
  readonly #environment: SimulatedEnvironment;
  readonly #link: Link;
  readonly #ears = new Set<Ear>();

  constructor(environment: SimulatedEnvironment, link: Link) {
    this.#environment = environment;
    this.#link = link;
  }

  /** Listens at once if the node is ready, otherwise from the next connection on. */
  add(channel: string, listener: WakeListener, isReady: boolean): () => void {
    const ear: Ear = { channel, listener, isLive: false, stop: () => undefined };
    this.#ears.add(ear);
    if (isReady) this.#subscribe(ear);
    return () => {
      this.#ears.delete(ear);
      ear.stop();
    };
  }

  /** Whether a release would be heard here. */
  isListening({ world, resources }: ReleaseRequest): boolean {
    const channels = resources.map((resource) => wakeChannel(world, resource));
    return [...this.#ears].some(({ channel, isLive }) => isLive && channels.includes(channel));
  }

  /** On a new connection. */
  subscribe(): void {
    for (const ear of this.#ears) this.#subscribe(ear);
  }

  /** The connection is lost. */
  fallDeaf(): void {
    for (const ear of this.#ears) {
      ear.isLive = false;
      ear.stop();
      ear.listener.onLive(false);
    }
  }

  /** The process is gone: nobody is told. */
  end(): void {
    for (const { stop } of this.#ears) stop();
    this.#ears.clear();
  }

  #subscribe(ear: Ear): void {
    const { machine } = this.#environment;
    const tell = (what: () => void): void => {
      if (this.#environment.isEnded) return;
      machine.run(() => {
        if (this.#ears.has(ear)) what();
      });
    };
    ear.stop();
    ear.stop = this.#link.subscribe(
      ear.channel,
      () =>
        tell(() => {
          ear.isLive = true;
          ear.listener.onLive(true);
        }),
      (told) => tell(() => ear.listener.onWake(told)),
    );
  }
}
