// Who gets a lock of a hot set: clients near and far, with clocks that are right and wrong.
import { LEAD_DECAY } from '../../lib/core/fencing.js';
import { pause } from '../measure/pause.js';
import { connectNodes, forgetAll, QUORUM, type ScriptNode } from './script-node.js';
import type { Form } from './forms.js';

/** The moment P is aimed at: `arrival` as in PROTOCOL.md section 8, `sent` without its lead. */
export type Aim = 'sent' | 'arrival';

export interface ClientClass {
  readonly name: string;
  readonly callers: number;
  /** ms */
  readonly roundTrip: number;
  /** How far its wall clock is ahead, in ms. */
  readonly skew: number;
  /** Whether it restarts now and then, knowing nothing of the nodes' clocks. */
  readonly restarts: boolean;
}

/** The results of one class of clients. */
export interface Share {
  readonly name: string;
  acquisitions: number;
  attempts: number;
  stale: number;
  /** Tokens minus the node's time when granted, in ms. */
  readonly leads: number[];
}

interface Outcome {
  readonly vote: 'granted' | 'taken' | 'stale';
  readonly low: number;
  readonly isAhead: boolean;
}

const RESOURCES = 64;
const STALE_RETRIES_MAX = 3;
let owners = 0;

/** Lets all classes compete for `seconds`. */
export async function measureShares(
  urls: readonly string[],
  form: Form,
  aim: Aim,
  classes: readonly ClientClass[],
  seconds: number,
): Promise<Share[]> {
  const clients = await Promise.all(
    classes.map(async (own) => {
      return new Client(await connectNodes(urls, form, own.roundTrip / 2), own, aim);
    }),
  );
  await forgetAll(clients[0]?.nodes ?? []);
  const endsAt = performance.now() + seconds * 1_000;
  await Promise.all(clients.map((client) => client.run(endsAt)));
  await Promise.all(clients.flatMap(({ nodes }) => nodes.map((node) => node.close())));
  return clients.map(({ share }) => share);
}

class Client {
  readonly share: Share;
  #offsets: number[] = [];
  #lead = 0;
  #previous = 0;

  constructor(
    readonly nodes: readonly ScriptNode[],
    private readonly own: ClientClass,
    private readonly aim: Aim,
  ) {
    this.share = { name: own.name, acquisitions: 0, attempts: 0, stale: 0, leads: [] };
  }

  async run(endsAt: number): Promise<void> {
    const callers = Array.from({ length: this.own.callers }, async () => {
      while (performance.now() < endsAt) {
        const resource = `hot:${Math.floor(Math.random() * RESOURCES)}`;
        if (this.own.restarts && Math.random() < 0.02) this.#forgetAll();
        while (performance.now() < endsAt && !(await this.#tryOnce(resource))) {
          await pause(5 + Math.random() * 10);
        }
        await pause(2);
      }
    });
    await Promise.all(callers);
  }

  async #tryOnce(resource: string): Promise<boolean> {
    let low = 0;
    for (let retries = 0; ; retries += 1) {
      const outcome = await this.#attempt(resource, low);
      if (outcome.vote === 'granted') this.share.acquisitions += 1;
      if (outcome.vote !== 'stale') return outcome.vote === 'granted';
      this.share.stale += 1;
      if (retries === STALE_RETRIES_MAX) return false;
      low = Math.max(low, outcome.low);
      if (outcome.isAhead) this.#previous = 0;
    }
  }

  #attempt(resource: string, low: number): Promise<Outcome> {
    const startedAt = this.#wallClock();
    const token = this.#propose(low);
    const own = { resource, owner: `owner:${(owners += 1)}`, token };
    const count = { granted: 0, taken: 0, answered: 0, low: 0 };
    let isAhead = false;
    let isSettled = false;
    this.share.attempts += 1;
    return new Promise((resolve) => {
      const settle = (vote: Outcome['vote']): void => {
        isSettled = true;
        if (vote !== 'taken') this.#roundTook(this.#wallClock() - startedAt);
        const onAnswer = (): void => undefined;
        for (const node of this.nodes) node.add({ name: 'release', ...own, onAnswer });
        resolve({ vote, low: count.low, isAhead });
      };
      const onAnswer = (index: number, vote: string, figure: number, now: number): void => {
        count.answered += 1;
        this.#offsets[index] = now - this.#wallClock();
        if (vote === 'granted') {
          count.granted += 1;
          this.share.leads.push((token - now) / 1_000);
        } else if (vote === 'taken') count.taken += 1;
        else count.low = Math.max(count.low, figure);
        isAhead ||= vote === 'ahead';
        if (isSettled) return;
        const isOver = count.granted + this.nodes.length - count.answered < QUORUM;
        if (count.granted === QUORUM) settle('granted');
        else if (isOver) settle(count.taken >= QUORUM || count.low === 0 ? 'taken' : 'stale');
      };
      this.nodes.forEach((node, index) => {
        const onReply = onAnswer.bind(null, index);
        node.add({ name: 'acquire', ...own, onAnswer: onReply });
      });
    });
  }

  #propose(low: number): number {
    const lead = this.aim === 'arrival' ? Math.floor(this.#lead) : 0;
    this.#previous = Math.max(this.#nodeTime() + lead, low + 1, this.#previous + 1);
    return this.#previous;
  }

  #roundTook(duration: number): void {
    this.#lead = Math.max(duration, this.#lead + (duration - this.#lead) * LEAD_DECAY);
  }

  #forgetAll(): void {
    this.#offsets = [];
    this.#lead = 0;
    this.#previous = 0;
  }

  #nodeTime(): number {
    const known = Object.values(this.#offsets).sort((a, b) => a - b);
    return this.#wallClock() + (known[Math.floor((known.length - 1) / 2)] ?? 0);
  }

  #wallClock(): number {
    return Math.floor((performance.timeOrigin + performance.now() + this.own.skew) * 1_000);
  }
}
