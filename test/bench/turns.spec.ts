import { describe, expect, it } from '@jest/globals';

import { connectClients, disconnectAll } from '../../bench/candidates/clients.js';
import { startTeam, takeTurns, usualSettings } from '../../bench/scenarios/turns.js';
import type { BenchContext } from '../../bench/scenarios/scenario.js';
import type { CandidateProcess, Launch } from '../../bench/processes/candidate-process.js';
import type { SessionSetup } from '../../bench/tasks/session.js';
import { afterTest } from '../support/after-test.js';
import { server } from '../support/redis-of-spec.js';

function contextOf(launch: Launch, isPipelined = false): BenchContext {
  const pace = { seconds: 1, rounds: 2 };
  const log = (): void => undefined;
  return { pace, isQuick: true, isFresh: false, isPipelined, only: null, launch, log };
}

describe('candidates that take turns', () => {
  it('come to rest after the warm-up too, before the next one begins', async () => {
    const steps: string[] = [];
    const run = ((task: string) => {
      steps.push(task);
      return Promise.resolve(true);
    }) as CandidateProcess['run'];
    const context = contextOf(() => Promise.resolve({ run, stop: () => Promise.resolve() }));

    await takeTurns(context, {
      names: ['ioredis', 'socket'],
      urls: [],
      settings: usualSettings,
      warmUp: ({ name }) => Promise.resolve(steps.push(`warm up ${name}`)),
      measure: ({ name }) => {
        steps.push(`measure ${name}`);
        return Promise.resolve({});
      },
    });

    expect(steps).toEqual([
      ...['warm up ioredis', 'rest', 'warm up socket', 'rest'],
      ...['measure ioredis', 'rest', 'measure socket', 'rest'],
      ...['measure socket', 'rest', 'measure ioredis', 'rest'],
    ]);
  });

  /** What the processes are told, which do nothing. */
  function recordSetups() {
    const setups: SessionSetup[] = [];
    const launch: Launch = (setup) => {
      setups.push(setup);
      return Promise.resolve({
        run: () => Promise.reject(new Error()),
        stop: () => Promise.resolve(),
      });
    };
    return { setups, launch };
  }

  it('reach the nodes by a longer way in the last of their processes, where there is one', async () => {
    const { setups, launch } = recordSetups();
    const plan = { urls: ['near'], farUrls: ['far'], settings: usualSettings, processCount: 3 };

    await startTeam(contextOf(launch), plan, 'ours');

    expect(setups.map(({ urls }) => urls)).toEqual([['near'], ['near'], ['far']]);
  });

  it.each([true, false])('may have clients that pipeline (%j)', async (isPipelined) => {
    const { setups, launch } = recordSetups();
    const plan = { urls: [server.url], settings: usualSettings };

    await startTeam(contextOf(launch, isPipelined), plan, 'node-redlock');
    const [{ urls, settings } = { urls: [], settings: usualSettings }] = setups;
    const clients = await connectClients(urls, settings);
    afterTest(() => disconnectAll(clients));

    expect(clients.map(({ options }) => options.enableAutoPipelining)).toEqual([isPipelined]);
  });
});
