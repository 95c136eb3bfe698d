// The guide's leader as it stands there, but for its durations, which are three tenths.
import timers from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';
import * as common from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import * as locked from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

import { eventually } from '../support/eventually.js';
import { loadGuide } from '../support/guides.js';
import { startModule, threeNodes } from './support/applications.js';

interface Guide {
  readonly FeedReader: abstract new (redlock: locked.RedlockService) => object;
}

const { FeedReader } = loadGuide(
  'CRON.md',
  {
    '@nestjs/common': common,
    'nestjs-locked': { ...locked, seconds: (count: number) => count * 300 },
    'node:timers/promises': timers,
  },
  1,
) as Guide;

/** Leads by nothing else than being there. */
@common.Injectable()
class Leader extends FeedReader {
  isLeading = false;
  terms = 0;
  endedBy: unknown;

  protected async lead(signal: AbortSignal): Promise<void> {
    this.isLeading = true;
    this.terms += 1;
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    this.isLeading = false;
    this.endedBy = signal.reason;
  }
}

/** What a leader uses. Like a database's module, it closes in the last of Nest's hooks. */
@common.Injectable()
class Store {
  isOpen = true;

  onApplicationShutdown(): void {
    this.isOpen = false;
  }
}

/** A leader that has something to save when it ends. */
@common.Injectable()
class SavingLeader extends FeedReader {
  readonly #store: Store;
  isLeading = false;
  hasSaved = false;

  constructor(redlock: locked.RedlockService, store: Store) {
    super(redlock);
    this.#store = store;
  }

  protected async lead(signal: AbortSignal): Promise<void> {
    this.isLeading = true;
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    await timers.setTimeout(50);
    this.hasSaved = this.#store.isOpen;
  }
}

interface Replica {
  readonly application: TestingModule;
  readonly leader: Leader;
  /** Its own way to each of the nodes. */
  readonly paths: readonly FaultyNode[];
}

async function startReplica(nodes: readonly locked.MemoryNode[]): Promise<Replica> {
  const paths = nodes.map((node) => new FaultyNode({ node }));
  const application = await startModule({ providers: [Leader] }, {}, paths);
  return { application, leader: application.get(Leader), paths };
}

/** Two replicas: the one that leads first, and the other. */
async function startTwo(): Promise<readonly [Replica, Replica]> {
  const nodes = threeNodes();
  const first = await startReplica(nodes);
  await eventually(() => first.leader.isLeading);
  return [first, await startReplica(nodes)];
}

describe('the leader of the guide', () => {
  it('is one, and another as soon as it shuts down', async () => {
    const [first, second] = await startTwo();
    const whileFirstLeads = second.leader.terms;

    await first.application.close();
    await eventually(() => second.leader.isLeading);

    expect(whileFirstLeads).toBe(0);
    // Not by the shutdown of the locks, which would have waited for it.
    expect(first.leader).toMatchObject({ terms: 1, endedBy: { name: 'AbortError' } });
  });

  it('has ended before the shutdown closes what it uses', async () => {
    const application = await startModule({ providers: [Store, SavingLeader] });
    const leader = application.get(SavingLeader);
    await eventually(() => leader.isLeading);

    await application.close();

    expect(leader.hasSaved).toBe(true);
  });

  it('that is cut off from the nodes stops, and waits for its turn when it is back', async () => {
    const [first, second] = await startTwo();

    for (const path of first.paths) path.refuse();
    await eventually(() => second.leader.isLeading);
    const { isLeading, endedBy } = first.leader;
    for (const path of first.paths) path.heal();
    await second.application.close();
    await eventually(() => first.leader.isLeading);

    expect(isLeading).toBe(false);
    expect(endedBy).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(first.leader.terms).toBe(2);
    expect(second.leader).toMatchObject({ isLeading: false, terms: 1 });
  });
});
