// Warns at the start of scheduled methods that each replica would run. A lock alone makes replicas
// run a job one after the other, which is seldom what a locked job is meant to do.
import type { Type } from '@nestjs/common';

import { definitionOf, methodsOf, type LockedDefinition } from './locked-definition.js';
import { redlockLogger } from './redlock.logger.js';

/** Where @nestjs/schedule keeps the options of what it fires again and again. */
const scheduleKeys = ['SCHEDULE_CRON_OPTIONS', 'SCHEDULE_INTERVAL_OPTIONS'];

/** Those that were warned of: a class may have many instances. */
const warned = new WeakSet<LockedDefinition>();

/**
 * Warns of the `@Cron` and `@Interval` methods of an object whose `@Locked` does not set
 * `holdAtLeast`, not even to 0. Each is warned of once in a process.
 */
export function warnOfRepeatedRuns(instance: object): void {
  for (const [key, definition] of methodsOf(instance)) {
    if (definition.options.holdAtLeast !== undefined || warned.has(definition)) continue;
    if (!isScheduled(instance, key, definition)) continue;
    warned.add(definition);
    redlockLogger.warn(
      `${definition.method} is scheduled, and its @Locked has no holdAtLeast: replicas may run it` +
        " one after the other. Say { wait: 0, onTaken: 'skip', holdAtLeast: … } for one run over" +
        ' all of them, or holdAtLeast: 0 for one in each (docs/CRON.md of nestjs-locked)',
    );
  }
}

// An override that is not @Locked itself is none of ours.
function isScheduled(instance: object, key: string | symbol, own: LockedDefinition): boolean {
  const method: unknown = Reflect.get(instance, key);
  if (typeof method !== 'function') return false;
  // First: an instance may be a proxy that wraps all that is a function, also its constructor. What
  // it wraps has no metadata.
  if (!scheduleKeys.some((name) => Reflect.hasMetadata(name, method))) return false;
  return definitionOf(method, instance.constructor as Type) === own;
}
