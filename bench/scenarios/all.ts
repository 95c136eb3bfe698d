import { apart } from './s11-apart.js';
import { crowd } from './s10-crowd.js';
import { decorator } from './s9-decorator.js';
import { deadNode } from './s5-dead-node.js';
import { handover } from './s8-handover.js';
import { farProcess } from './s12-far-process.js';
import { hotKey } from './s3-hot-key.js';
import { hotKeyProcesses } from './s4-hot-key-processes.js';
import { inFlight } from './s2-in-flight.js';
import { oneAtATime } from './s1-one-at-a-time.js';
import { quarantine } from './quarantine.js';
import { slowNode } from './s6-slow-node.js';
import { watchdog } from './s7-watchdog.js';
import type { Scenario } from './scenario.js';

/** In the order in which they run. */
export const scenarios: readonly Scenario[] = [
  oneAtATime,
  inFlight,
  hotKey,
  hotKeyProcesses,
  deadNode,
  slowNode,
  watchdog,
  handover,
  decorator,
  crowd,
  apart,
  farProcess,
  quarantine,
];
