import { beforeEach, describe, expect, it } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { encodeCommand } from '../../lib/nodes/redis-command.js';
import {
  CallMemo,
  RedisTick,
  type Collector,
  type TaggedCall,
} from '../../lib/nodes/redis-tick.js';
import { requestFor, worldOf } from '../support/node-harness.js';
import type { BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';

const world = worldOf();
const request = requestFor({ world });
const acquisition = { name: 'acquire', request } as const;
const extension = { name: 'extend', request: requestFor({ world }) } as const;
const release = {
  name: 'release',
  request: { ...requestFor({ world }), wakes: true },
  isListening: false,
} as const;

type Call = readonly BatchedOperation[];

const CALL: Call = [acquisition, extension, release];

function encode(): TaggedCall {
  return { tag: 1, command: encodeCommand('evalsha') };
}

describe('a call', () => {
  it('is encoded once for all nodes that are asked the same', () => {
    const memo = new CallMemo();

    const first = memo.encodeOnce('hash', CALL, encode);
    // Each node has its own operations, about the requests of all.
    const own = CALL.map((operation) => ({ ...operation }));
    const second = memo.encodeOnce('hash', own, encode);

    expect(second).toBe(first);
  });

  it.each<[what: string, script: string, Call]>([
    ['another script', 'other', CALL],
    ['one operation less', 'hash', [acquisition, extension]],
    ['one operation more', 'hash', [...CALL, acquisition]],
    ['another order', 'hash', [extension, acquisition, release]],
    ['another request', 'hash', [{ ...extension, name: 'acquire' }, extension, release]],
    ['another operation', 'hash', [{ ...acquisition, name: 'extend' }, extension, release]],
    [
      'a release by who listens',
      'hash',
      [acquisition, extension, { ...release, isListening: true }],
    ],
  ])('is not that of the node before it with %s', (_what, script, call) => {
    const memo = new CallMemo();
    const before = memo.encodeOnce('hash', CALL, encode);

    const encoded = memo.encodeOnce(script, call, encode);

    expect(encoded).not.toBe(before);
  });
});

describe('the end of a tick', () => {
  const sent: string[] = [];
  const memos = new Set<CallMemo>();

  function nodeWith(call: string): Collector {
    return {
      flush: (memo) => {
        sent.push(call);
        memos.add(memo);
      },
    };
  }

  beforeEach(() => {
    sent.length = 0;
    memos.clear();
  });

  it('comes after its microtasks, and sends what all nodes have with one memory', async () => {
    const tick = new RedisTick(systemEnvironment);

    tick.join(nodeWith('a'));
    await Promise.resolve();
    tick.join(nodeWith('b'));
    const sentByThen = [...sent];
    await new Promise(setImmediate);

    expect(sentByThen).toEqual([]);
    expect(sent).toEqual(['a', 'b']);
    expect(memos.size).toBe(1);
  });

  it('may be called before, for what was asked so far', async () => {
    const tick = new RedisTick(systemEnvironment);

    tick.join(nodeWith('a'));
    tick.end();
    const sentByThen = [...sent];
    tick.join(nodeWith('b'));
    await new Promise(setImmediate);

    expect(sentByThen).toEqual(['a']);
    expect(sent).toEqual(['a', 'b']);
  });
});

describe('the tags of a process', () => {
  it('begin anywhere, so that replies to another process are recognised as such', () => {
    const firstTag = (random: number): number =>
      new RedisTick({ ...systemEnvironment, random: () => random }).nextTag();

    expect(firstTag(0.25)).not.toBe(firstTag(0.75));
  });
});
