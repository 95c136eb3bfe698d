import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from '@jest/globals';

import { reportProfiles, sharesOf, type CpuProfile } from '../../bench/report/profiles.js';

type Node = CpuProfile['nodes'][number];

const node = (functionName: string, url: string, hitCount: number): Node => ({
  callFrame: { functionName, url },
  hitCount,
});

const profile: CpuProfile = {
  nodes: [
    node('(idle)', '', 1_000),
    node('(garbage collector)', '', 10),
    node('writeLatin1String', '', 20),
    node('call', 'file:///a/node_modules/ioredis/built/Redis.js', 5),
    node('asCallback', 'file:///a/node_modules/standard-as-callback/built/index.js', 5),
    node('acquire', 'file:///a/dist/esm/core/redlock.js', 30),
    node('acquire', 'file:///a/node_modules/redlock/dist/index.js', 8),
    node('set', 'file:///a/dist/bench/bench/candidates/bare-socket.js', 2),
    node('runPairs', 'file:///a/dist/bench/bench/tasks/pairs.js', 4),
    node('onread', 'node:internal/stream_base_commons', 15),
    node('runMicrotasks', '', 1),
    { callFrame: { functionName: '(root)', url: '' } },
  ],
};

describe('the profiles of the bench', () => {
  const folder = mkdtempSync(join(tmpdir(), 'profiles-'));

  afterAll(() => rmSync(folder, { recursive: true }));

  it('are shared out among those who took the time, idleness left out', () => {
    expect([...sharesOf([profile])]).toEqual([
      ['garbage collection', 10],
      ['writes to sockets', 20],
      ['ioredis', 10],
      ['the library', 40],
      ['the bench', 4],
      ['Node', 16],
    ]);
  });

  it('become a table, all processes of a candidate in one row', () => {
    const idle = { nodes: [node('(garbage collector)', '', 100)] };
    writeFileSync(join(folder, 'ours-1.cpuprofile'), JSON.stringify(profile));
    writeFileSync(join(folder, 'ours-22.cpuprofile'), JSON.stringify(idle));
    writeFileSync(join(folder, 'socket-3.cpuprofile'), JSON.stringify(profile));
    writeFileSync(join(folder, 'notes.txt'), 'not a profile');

    reportProfiles(folder);

    const lines = readFileSync(join(folder, 'profiles.md'), 'utf8').split('\n');
    expect(lines).toEqual([
      '| | garbage collection | writes to sockets | ioredis | the library | the bench | Node |',
      '|---|--:|--:|--:|--:|--:|--:|',
      '| nestjs-locked | 55 % | 10 % | 5 % | 20 % | 2 % | 8 % |',
      '| bare socket | 10 % | 20 % | 10 % | 40 % | 4 % | 16 % |',
      '',
    ]);
  });
});
