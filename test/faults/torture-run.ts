// One torture run: servers, paths, workers, rounds of faults, and what came of it.
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Milliseconds, RedlockModuleOptions } from 'nestjs-locked';

import { Random } from '../simulation/random.js';
import { startRedisServer, type RedisServer } from '../support/redis-servers.js';
import { runRound, type Battlefield } from './fault-driver.js';
import { drawRound, type PlannedFault } from './fault-plan.js';
import { GuardedStore } from './guarded-store.js';
import type { Recovery, RunRecord } from './history-check.js';
import { instantNow, readHistories } from './history.js';
import { LagMeter } from './lag-meter.js';
import { NetworkPath } from './network-path.js';
import { TortureNode } from './torture-node.js';
import { WorkerProcess } from './worker-process.js';

/** What a run is made of. */
export interface TortureSettings {
  /** How long new rounds of faults begin. */
  readonly duration: Milliseconds;
  readonly seed: number;
  /** False: nodes that forgot vote at once. To see the checks find something. */
  readonly isQuarantined: boolean;
  /** Where worker.js is. */
  readonly workerScript: string;
  /** Hears of each round. */
  readonly onRound: (round: Round) => void;
}

/** A round, when it is over. */
export interface Round {
  readonly startedAt: Milliseconds;
  readonly faults: readonly PlannedFault[];
  readonly recoveries: readonly Recovery[];
}

/** What came of a run. */
export interface TortureResult extends RunRecord {
  /** Where the histories are. */
  readonly folder: string;
}

/** Runs it, and clears everything away but the histories. */
export async function runTorture(settings: TortureSettings): Promise<TortureResult> {
  const run = new TortureRun(settings);
  try {
    return await run.toItsEnd();
  } finally {
    await run.clear();
  }
}

class TortureRun implements Battlefield {
  readonly #settings: TortureSettings;
  readonly #folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-torture-'));
  readonly #workers: WorkerProcess[] = [];
  readonly #lives = new Array<number>(WORKERS).fill(0);
  readonly #deaths: string[] = [];
  readonly #lag = new LagMeter();
  nodes: readonly TortureNode[] = [];
  paths: readonly (readonly NetworkPath[])[] = [];
  #store: RedisServer | undefined;

  constructor(settings: TortureSettings) {
    this.#settings = settings;
    mkdirSync(this.#folder, { recursive: true });
  }

  worker(index: number): WorkerProcess {
    const worker = this.#workers[index];
    if (worker === undefined) throw new Error(`There is no worker ${index}`);
    return worker;
  }

  async revive(index: number): Promise<void> {
    const life = (this.#lives[index] ?? 0) + 1;
    this.#lives[index] = life;
    const settings = {
      name: `worker-${index}.${life}`,
      ownResource: `own-${index}`,
      sharedResources: ['shared-0', 'shared-1', 'shared-2'],
      nodes: (this.paths[index] ?? []).map(({ url }) => url),
      store: this.#store?.url ?? '',
      folder: this.#folder,
      seed: this.#settings.seed * 1_000 + index * 100 + life,
      redlock: { ...redlockOptions, quarantine: this.#settings.isQuarantined },
    };
    const onDeath = (how: string): number => this.#deaths.push(how);
    this.#workers[index] = await WorkerProcess.start(
      this.#settings.workerScript,
      settings,
      onDeath,
    );
  }

  async toItsEnd(): Promise<TortureResult> {
    await this.#start();
    const rounds = await this.#rounds();
    await Promise.all(this.#workers.map((worker) => worker.stop()));
    await sleep(KEPT_MAX);
    const store = new GuardedStore(this.#store?.url ?? '');
    const result = {
      folder: this.#folder,
      events: readHistories(this.#folder),
      faults: rounds.flatMap(({ faults }) => faults.map(({ kind }) => kind)),
      isQuarantined: this.#settings.isQuarantined,
      registers: await store.registers(),
      counters: await store.counters(),
      recoveries: rounds.flatMap(({ recoveries }) => recoveries),
      deaths: this.#deaths,
      leftovers: (await Promise.all(this.nodes.map((node) => node.leftovers()))).flat(),
    };
    await store.close();
    return result;
  }

  async clear(): Promise<void> {
    this.#lag.stop();
    await Promise.all(this.#workers.map((worker) => worker.kill()));
    await Promise.all(this.paths.flat().map((path) => path.close()));
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.#store?.stop();
  }

  async #start(): Promise<void> {
    const starts = Array.from({ length: NODES }, () => TortureNode.start());
    [this.#store, this.nodes] = await Promise.all([startRedisServer(), Promise.all(starts)]);
    const opened = Array.from({ length: WORKERS }, () =>
      Promise.all(this.nodes.map(({ server }) => NetworkPath.open(server.port))),
    );
    this.paths = await Promise.all(opened);
    await Promise.all(Array.from({ length: WORKERS }, (_, index) => this.revive(index)));
  }

  async #rounds(): Promise<Round[]> {
    const random = new Random(this.#settings.seed, 0);
    const rounds: Round[] = [];
    const runStartedAt = instantNow();
    // The first has no faults: brand-new nodes grant nothing until their quarantine is over.
    for (let faults: PlannedFault[] = []; ;) {
      const startedAt = instantNow() - runStartedAt;
      await runRound(this, faults);
      const round = { startedAt, faults, recoveries: await this.#recover() };
      rounds.push(round);
      this.#settings.onRound(round);
      const isHopeless = round.recoveries.some(({ took }) => took === null);
      const isOver = instantNow() - runStartedAt > this.#settings.duration;
      if (isOver || isHopeless || this.#deaths.length > 0) return rounds;
      faults = drawRound(random, { nodes: NODES, workers: WORKERS });
      await sleep(CALM);
    }
  }

  // From the moment in which nothing is broken any more until each worker is granted a lock.
  #recover(): Promise<Recovery[]> {
    const healedAt = instantNow();
    const lagBefore = this.#lag.total;
    const recoveries = this.#workers.map(async (worker, index) => {
      const grant = worker.nextGrant().catch(() => null);
      const limitReached = async (): Promise<null> => {
        // Time in which the machine ran something else is not the locks' time.
        for (
          let left = RECOVERY_MAX;
          left > 0;
          left = healedAt + this.#limit(lagBefore) - instantNow()
        )
          await sleep(Math.min(left, 100));
        return null;
      };
      const at = await Promise.race([grant, limitReached()]);
      const took = at === null ? null : Math.max(0, at - healedAt);
      return { worker: `worker-${index}`, took, limit: this.#limit(lagBefore) };
    });
    return Promise.all(recoveries);
  }

  #limit(lagBefore: Milliseconds): Milliseconds {
    return RECOVERY_MAX + LAG_SHARE * (this.#lag.total - lagBefore);
  }
}

const NODES = 5;
const WORKERS = 4;
const TTL_MAX: Milliseconds = 1_500;

const redlockOptions = {
  ttl: 1_000,
  ttlMax: TTL_MAX,
  nodeTimeout: 250,
  stallTimeout: 1_000,
  maxHold: 5_000,
  interceptor: false,
} as const satisfies RedlockModuleOptions;

/** After a reconnection (3 s at most) a node that forgot does not vote for a `ttlMax`. */
const RECOVERY_MAX: Milliseconds = 6_000;
/** The others were late too, each at its own step. */
const LAG_SHARE = 3;
/** Some work without faults between two rounds. */
const CALM: Milliseconds = 300;
/** Fence records, kept for 3R, are the last to go: R is 5/3 of `ttlMax`. */
const KEPT_MAX: Milliseconds = 5 * TTL_MAX + 200;
