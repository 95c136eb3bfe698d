// What is kept of a run, and where.
import { readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';

import type { Group, Metric, Pace, Scenario, ScenarioId } from '../scenarios/scenario.js';

/** Where the figures come from. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  /** Whether cores with nothing to do were kept from sleeping. */
  readonly isAwake: boolean;
  readonly memory: string;
  readonly system: string;
  readonly node: string;
  readonly redis: string;
  /** What was measured beside ours, and with which client: names and versions. */
  readonly libraries: string;
}

/** One scenario, measured. */
export interface ScenarioRecord {
  readonly id: ScenarioId;
  readonly title: string;
  readonly question: string;
  readonly metrics: readonly Metric[];
  readonly plotted: readonly string[];
  readonly pace: Pace;
  readonly isQuick: boolean;
  readonly command: string;
  readonly measuredAt: string;
  /** In seconds. */
  readonly duration: number;
  readonly machine: Machine;
  readonly groups: readonly Group[];
}

/** All scenarios, each as it was last measured. */
export interface Results {
  readonly scenarios: readonly ScenarioRecord[];
}

const FILE = 'results.json';

/** Reads the results; none if there is no file yet. */
export function readResults(folder: string): Results {
  let text: string;
  try {
    text = readFileSync(join(folder, FILE), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      return { scenarios: [] };
    }
    throw error;
  }
  // Written by `writeResults`. JSON has no NaN: there it is null, as is a failure that there was not.
  return JSON.parse(text, (key, value: unknown) =>
    value === null && key !== 'failure' ? NaN : value,
  ) as Results;
}

export function writeResults(folder: string, results: Results): void {
  writeFileSync(join(folder, FILE), `${JSON.stringify(results, rounded, 2)}\n`);
}

/** Replaces the results of these scenarios, and keeps the scenarios' own order. */
export function mergeResults(
  known: Results,
  measured: readonly ScenarioRecord[],
  order: readonly Scenario[],
): Results {
  const records = new Map([...known.scenarios, ...measured].map((record) => [record.id, record]));
  return { scenarios: order.flatMap(({ id }) => records.get(id) ?? []) };
}

/** @param redis The servers' name and version. */
export function describeMachine(redis: string, isAwake: boolean): Machine {
  const [processor] = cpus();
  return {
    cpu: processor?.model.trim() ?? 'unknown',
    cores: cpus().length,
    isAwake,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${platform()} ${release()} ${arch()}`,
    node: process.version,
    redis,
    libraries: LIBRARIES.map((name) => `${name} ${versionOf(name)}`).join(', '),
  };
}

const LIBRARIES = ['ioredis', 'redlock', 'redis-semaphore', 'redlock-universal'];

// Read off the file: not every package exports it. Some put a v before the number.
function versionOf(library: string): string {
  const manifest = readFileSync(join('node_modules', library, 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version.replace(/^v/, '');
}

// Six digits are more than any of these figures is worth.
function rounded(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(6)) : value;
}
