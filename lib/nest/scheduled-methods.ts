// Tells at the start of scheduled methods that each replica would run. A lock alone lets them run
// one after the other, and few who lock a job mean that.
import type { Type } from '@nestjs/common';

import { definitionOf, methodsOf, type LockedDefinition } from './locked-definition.js';
import { redlockLogger } from './redlock.logger.js';

/** Where @nestjs/schedule keeps the options of what it fires again and again. */
const scheduleKeys = ['SCHEDULE_CRON_OPTIONS', 'SCHEDULE_INTERVAL_OPTIONS'];

/** Those that were told of: a class may have many instances. */
const told = new WeakSet<LockedDefinition>();

/**
 * Warns of the `@Cron` and `@Interval` methods of an object whose `@Locked` says nothing of
 * `holdAtLeast`, not even 0. Each is told of once in a process.
 */
export function warnOfRepeatedRuns(instance: object): void {
  for (const [key, definition] of methodsOf(instance)) {
    if (definition.options.holdAtLeast !== undefined || told.has(definition)) continue;
    if (!isScheduled(instance, key, definition)) continue;
    told.add(definition);
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
  if (definitionOf(method, instance.constructor as Type) !== own) return false;
  return scheduleKeys.some((name) => Reflect.hasMetadata(name, method));
}
