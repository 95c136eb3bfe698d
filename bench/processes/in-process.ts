// A candidate in the runner's own process: for a test of the bench, not for a measurement.
import { Session } from '../tasks/session.js';
import type { Launch } from './candidate-process.js';

export const launchInProcess: Launch = async (setup) => {
  const session = await Session.open(setup);
  return {
    run: (name, input) => session.run(name, input),
    stop: () => session.close().catch(() => undefined),
  };
};
