// The health of a node in virtual time, and what is told of it.
import { NodeHealth } from '../../lib/nodes/node-health.js';
import { NodeLog } from '../support/node-harness.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';

/** A node that is up. */
export function startHealth() {
  const environment = new SimulatedEnvironment();
  const log = new NodeLog();
  const health = new NodeHealth('a', environment, log.observer);
  health.noteUp([]);
  return { environment, log, health };
}
