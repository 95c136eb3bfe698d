// What a FaultyNode refuses. Without an error nothing would go wrong, and a test would show that the
// application copes.
import { describe, expect, it } from '@jest/globals';
import { MemoryNode } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

import { thrown } from '../nest/support/events.js';

const FAULTS =
  'down, misconfigured, requestLost, answerLost, answerOdd, answerDoubled, quarantined';
const OPERATIONS = 'acquire, extend, release, inspect';

const faultyWith = (options: unknown) => () => new FaultyNode(options as object);

describe('FaultyNode', () => {
  it.each([
    [faultyWith(null), 'options to be an object, got null'],
    [faultyWith('a'), 'options to be an object, got a string'],
    [faultyWith(new MemoryNode()), '{ node }, got the node itself'],
    [
      faultyWith({ inner: new MemoryNode() }),
      'only options of FaultyNodeOptions (node, name, environment), got "inner"',
    ],
    [faultyWith({ node: null }), 'node to be a LockNode, got null'],
    [faultyWith({ node: { name: 'a' } }), 'node to be a LockNode, got an object'],
    [faultyWith({ name: null }), 'name to be a non-empty string, got null'],
    [faultyWith({ environment: null }), 'environment to be an Environment, got null'],
    [
      faultyWith({ node: new MemoryNode(), environment: {} }),
      'environment to be an Environment, got an object',
    ],
  ])('is not made of what it cannot use: %#', (make, message) => {
    expect(String(thrown(make))).toBe(`TypeError: Expected ${message}`);
  });

  it.each<[string, (node: FaultyNode) => void, string]>([
    ['fault', (node) => node.fail('dwon' as never), `a NodeFault (${FAULTS}), got "dwon"`],
    ['fault', (node) => node.fail(['down'] as never), `a NodeFault (${FAULTS}), got an array`],
    [
      'operation',
      (node) => node.refuse('acquire', 'extnd' as never),
      `a NodeOperation (${OPERATIONS}), got "extnd"`,
    ],
    [
      'operation',
      (node) => node.refuse(['acquire'] as never),
      `a NodeOperation (${OPERATIONS}), got an array`,
    ],
    [
      'operation',
      (node) => node.count('aquire' as never),
      `a NodeOperation (${OPERATIONS}), got "aquire"`,
    ],
    [
      'direction of a delay',
      (node) => node.delay({ answers: 5 } as never),
      'only members of Latency (request, answer), got "answers"',
    ],
    [
      'delay',
      (node) => node.delay(undefined as never),
      'the delay of the answer to be a number, got undefined',
    ],
    ['key', (node) => node.occupy('', 1_000), 'key to be a non-empty string, got ""'],
    ['key', (node) => node.vacate(7 as never), 'key to be a non-empty string, got 7'],
    ['ttl', (node) => node.occupy('a', null as never), 'ttl to be a number, got null'],
    ['owner', (node) => node.occupy('a', 1, ''), 'ownerId to be a non-empty string, got ""'],
    [
      'resource',
      (node) => node.expireNow(undefined as never),
      'resource to be a non-empty string, got undefined',
    ],
  ])('refuses what is no %s: %#', (_what, mistake, message) => {
    const error = thrown(() => mistake(new FaultyNode()));

    expect(String(error)).toBe(`TypeError: Expected ${message}`);
  });

  it.each([0, -1, NaN])('refuses to be occupied for %p ms', (ttl) => {
    const error = thrown(() => new FaultyNode().occupy('a', ttl));

    expect(String(error)).toBe(
      `RangeError: Expected ttl to be from 1 to Infinity, got ${String(ttl)}`,
    );
  });
});
