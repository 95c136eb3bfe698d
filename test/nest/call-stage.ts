// What all who make calls at random share: dice, model, and what is done while a lock is held.
import type { Random } from '../simulation/random.js';
import type { Client } from './call-clients.js';
import type { Bodies } from './call-methods.js';
import type { CallModel } from './call-model.js';
import type { Body } from './calls.js';

/** The play, as those see it who make its calls. */
export interface Stage extends Bodies {
  readonly dice: Random;
  readonly model: CallModel;
  /** Does something in the running context, which is that of `inside`. */
  actIn(inside: Body | null): Promise<void>;
  readSteps(steps: AsyncIterable<unknown, unknown>, reader: Reader): Promise<unknown>;
  sleep(duration: number): Promise<void>;
  upTo(limit: number): number;
}

/** Who reads a result in steps. */
export interface Reader {
  readonly inside: Body | null;
  readonly client: Client;
  /** Whether it may leave without a word. */
  readonly isRude: boolean;
}
