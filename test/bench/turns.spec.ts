import { describe, expect, it } from '@jest/globals';

import { takeTurns, usualSettings } from '../../bench/scenarios/turns.js';
import type { CandidateProcess } from '../../bench/processes/candidate-process.js';

describe('candidates that take turns', () => {
  it('come to rest after the warm-up too, before the next one begins', async () => {
    const steps: string[] = [];
    const run = ((task: string) => {
      steps.push(task);
      return Promise.resolve(true);
    }) as CandidateProcess['run'];
    const context = {
      pace: { seconds: 1, rounds: 2 },
      isQuick: true,
      isFresh: false,
      only: null,
      launch: () => Promise.resolve({ run, stop: () => Promise.resolve() }),
      log: () => undefined,
    };

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
});
