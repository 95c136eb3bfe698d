import { core, script } from './mutant.js';
import type { Mutant } from './mutant.js';

/** What nodes do: sections 7 to 9. */
export const mutantsOfNodes: readonly Mutant[] = [
  {
    name: 'release without compare',
    rule: '7: compare-and-delete',
    patches: [
      script(
        'if (this.#get(key, moment) !== ownerId) continue;',
        'if (this.#get(key, moment) === null) continue;',
      ),
    ],
  },
  {
    name: 'release forgets what it could not deliver',
    rule: '4.7: pending releases are flushed on reconnect',
    patches: [
      {
        file: 'lib/nodes/pending-releases.ts',
        find: 'expiresAt > now && sentOn !== connection',
        replace: 'expiresAt > now && sentOn !== connection && now < 0',
      },
    ],
  },
  {
    name: 'set without NX',
    rule: '8: another owner: taken',
    patches: [
      script('else if (holder !== null) {', 'else if (holder !== null && moment.now < 0) {'),
    ],
  },
  {
    name: 'only the first resource is looked at',
    rule: '4.1: all or none',
    patches: [
      script(
        'else if (holder !== null) {',
        'else if (holder !== null && resource === resources[0]) {',
      ),
    ],
  },
  {
    name: 'set without PX',
    rule: '8: SET key owner PX T',
    patches: [
      script(
        'this.#set(lockKey(world, resource), ownerId, ttl, moment);\n    }\n    if (world.fencing) this.#record(world, resources',
        'this.#set(lockKey(world, resource), ownerId, Infinity, moment);\n    }\n    if (world.fencing) this.#record(world, resources',
      ),
    ],
  },
  {
    name: 'token by the wall clock alone',
    rule: '8: P follows the nodes and the last tokens',
    patches: [
      core(
        'fencing',
        'Math.max(arrival, low + 1, this.#previous + 1)',
        'Math.floor(this.#environment.wallClock() * MICROSECONDS_PER_MS)',
      ),
    ],
  },
  {
    name: 'no fence window below',
    rule: '8: low = max(now - S, …)',
    patches: [
      script('Math.max(moment.now - world.clockSkewMax * 1_000, ...fences)', 'Math.max(...fences)'),
    ],
  },
  {
    name: 'no fence window above',
    rule: '8: P > high is ahead',
    patches: [
      script(
        "if (token > high) return { vote: 'stale', isAhead: true, low, nodeTime };",
        'void high;',
      ),
    ],
  },
  {
    name: 'fence record not stored',
    rule: '8: SET F_r P',
    patches: [
      script(
        'if (world.fencing) this.#record(world, resources, token, moment);\n    return',
        'return',
      ),
    ],
  },
  {
    name: 'fence record not checked',
    rule: '8: P <= low is stale',
    patches: [
      script(
        "if (lowestTokenOf(token) <= low) return { vote: 'stale', isAhead: false, low, nodeTime };",
        '',
      ),
    ],
  },
  {
    name: 'equal token accepted',
    rule: '8: P <= low is stale',
    patches: [
      script('if (lowestTokenOf(token) <= low) return', 'if (lowestTokenOf(token) < low) return'),
    ],
  },
  {
    name: 'block accepted by its last token',
    rule: '8: none of its tokens is at most low',
    patches: [script('if (lowestTokenOf(token) <= low) return', 'if (token <= low) return')],
  },
  {
    name: 'no tombstone',
    rule: '8: release records P',
    patches: [script('{\n      this.#record(world, resources, token, moment);\n    }', '{\n    }')],
  },
  {
    name: 'fence record kept too briefly',
    rule: '8: R = 5S',
    patches: [core('world', 'fenceRetention: 5 * clockSkewMax', 'fenceRetention: 10')],
  },
  {
    name: 'fence records of one period alone',
    rule: '8: F_r is the higher of the two',
    patches: [script('fenceHashes(world).map((hash)', 'fenceHashes(world).slice(0, 1).map((hash)')],
  },
  {
    name: 'fence records of the period before emptied',
    rule: '8: kept for R at least',
    patches: [
      script(
        'this.data.delete(hash);',
        'for (const each of fenceHashes(world)) this.data.delete(each);',
      ),
    ],
  },
  {
    name: 'no certificate',
    rule: '9: votes of a restarted node do not count for M',
    patches: [script('if (world.quarantine === 0) return', 'if (world.quarantine >= 0) return')],
  },
  {
    name: 'uptime instead of certificate',
    rule: '9: FLUSHALL loses the certificate',
    patches: [
      {
        file: 'test/simulation/simulated-server.ts',
        find: '    this.model.data.clear();',
        replace:
          "    for (const key of this.model.data.keys()) if (!key.endsWith(':node')) this.model.data.delete(key);",
      },
    ],
  },
  {
    name: 'certificate without replid',
    rule: '9: a snapshot and a replica carry another replid',
    patches: [
      script('replid !== null && replid !== known && !isPersistent', 'replid !== null && false'),
    ],
  },
  {
    name: 'quarantine too short',
    rule: '9: M = ttlMax(1+d) + 10 ms',
    patches: [core('world', 'Math.ceil(ttlMax * (1 + driftFactor)) + 10', 'Math.ceil(ttlMax / 4)')],
  },
];
