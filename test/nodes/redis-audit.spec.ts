import { describe, expect, it } from '@jest/globals';

import {
  disagreement,
  factsOf,
  auditServer,
  LastServer,
  NodePeers,
  type AuditResult,
  type ClockReading,
  type ServerFacts,
} from '../../lib/nodes/redis-audit.js';
import { worldOf } from '../support/node-harness.js';

const LIMIT = worldOf().clockSkewMax / 2;

/** Judges nodes one after the other, as they connect. */
function audit(...nodes: (Partial<ClockReading> & { runId?: string })[]): AuditResult[] {
  const peers = new NodePeers(3);
  return nodes.map(({ runId, ...given }, index) => {
    const info = `role:master\r\nrun_id:${runId ?? `run-${index}`}\r\n`;
    const node = { name: `node-${index}`, isPersistent: false };
    return auditServer(node, factsOf(info), clockReading(given), peers, worldOf());
  });
}

/** By both of our clocks the same, unless one of them has run ahead of the other. */
function clockReading({ offset = 0, monotonicOffset = offset, error = 0 }: Partial<ClockReading>) {
  return { offset, monotonicOffset, error };
}

describe('the clocks of a set', () => {
  it('may differ by half of what the protocol allows', () => {
    const verdicts = audit({ offset: 0 }, { offset: LIMIT }, { offset: 1 });

    expect(verdicts.flatMap(({ findings }) => findings)).toEqual([]);
  });

  it('that differ by more are named, both of them', () => {
    const [, second] = audit({ offset: 0 }, { offset: -LIMIT - 1 });

    expect(second).toEqual({
      refusal: null,
      findings: [`Its clock and that of node-0 differ by more than ${LIMIT} ms. Synchronise them.`],
    });
  });

  it('are not blamed for what the measurement may be wrong by', () => {
    const [, second] = audit({ offset: 0, error: 10 }, { offset: LIMIT + 20, error: 10 });

    expect(second?.findings).toEqual([]);
  });

  it.each([
    ['wall clock was set', { offset: -3_600_000, monotonicOffset: 0 }],
    ['machine slept', { offset: 0, monotonicOffset: 3_600_000 }],
  ])('are not blamed where our own %s between two connections', (_, later) => {
    const [, second] = audit({ offset: 0 }, later);

    expect(second?.findings).toEqual([]);
  });
});

describe('the servers of a set', () => {
  it('are refused when another node is the same process, until that one has left', () => {
    const peers = new NodePeers(3);
    const clock = clockReading({});
    peers.admit('a', 'run', clock);

    const twin = peers.admit('b', 'run', clock);
    const duplicates = [...peers.duplicates];
    peers.leave('a');
    const later = peers.admit('b', 'run', clock);

    expect({ twin, duplicates, later }).toEqual({ twin: 'a', duplicates: ['b'], later: null });
    expect(peers.duplicates.size).toBe(0);
  });

  it('are not taken for the same where they do not say who they are', () => {
    const peers = new NodePeers(3);
    const clock = clockReading({});

    const twins = ['a', 'b'].map((name) => peers.admit(name, undefined, clock));

    expect(twins).toEqual([null, null]);
  });
});

describe('a node that is declared persistent', () => {
  it.each([
    ['on', 1, []],
    ['off', 0, [expect.stringMatching(/declared persistent/)]],
  ])('is believed where its append-only file is on: it is %s', (_, enabled, findings) => {
    const facts = factsOf(`role:master\r\naof_enabled:${enabled}\r\n`);
    const node = { name: 'node', isPersistent: true };

    const verdict = auditServer(node, facts, clockReading({}), new NodePeers(3), worldOf());

    expect(verdict).toEqual({ refusal: null, findings });
  });
});

describe('another server by the name of the last one', () => {
  const server = (runId: string, uptime: number) =>
    factsOf(`role:master\r\nrun_id:${runId}\r\nuptime_in_seconds:${uptime}\r\n`);

  function findingsOf(next: ServerFacts, first = server('first', 60)): string[] {
    const last = new LastServer();
    const findings = last.next(first, 0);
    last.seen(100_000);
    return [...findings, ...last.next(next, 109_000)];
  }

  it('that was up beside it is told: a balancer or a failover may let two holders in', () => {
    expect(findingsOf(server('second', 11))).toEqual([
      expect.stringMatching(/up at the same time: behind a balancer, or after a failover,/),
    ]);
  });

  it('that was up beside it is told, too, where that one has answered nothing since', () => {
    const last = new LastServer();
    last.next(server('first', 60), 100_000);

    const findings = last.next(server('second', 11), 109_000);

    expect(findings).toHaveLength(1);
  });

  it.each([
    { next: server('second', 10), why: 'it may have been started when the first fell silent' },
    { next: server('first', 169), why: 'it is the same' },
    { next: factsOf(null), why: 'nothing is known where INFO is denied' },
  ])('is not suspected otherwise: $why', ({ next }) => {
    expect(findingsOf(next)).toEqual([]);
  });

  it('is not suspected when INFO is granted: it may have been the same all the time', () => {
    expect(findingsOf(server('second', 169), factsOf(null))).toEqual([]);
  });
});

describe('what is found', () => {
  const STEP = /[.:] (Grant|Name|Run|Set|Synchronise) [^.:]+\.$/;
  const verdictOn = (info: string | null): AuditResult => {
    const node = { name: 'node', isPersistent: true };
    return auditServer(node, factsOf(info), clockReading({}), new NodePeers(3), worldOf());
  };

  it.each([
    ['no master', verdictOn('role:slave\r\n')],
    ['the server of another node', audit({ runId: 'run' }, { runId: 'run' })[1]],
    ['a wrong clock', audit({ offset: 0 }, { offset: LIMIT + 1 })[1]],
    ['nothing, as INFO is denied', verdictOn(null)],
  ])('of a server ends with what to do: %s', (_, verdict) => {
    expect(verdict?.findings).toEqual([expect.stringMatching(STEP)]);
  });

  it('of a configuration ends with what to do, each of it', () => {
    const { findings } = verdictOn(
      'role:master\r\nmaxmemory_policy:allkeys-lru\r\nconnected_slaves:1\r\ncluster_enabled:1\r\n',
    );

    expect(findings).toEqual(Array.from({ length: 4 }, () => expect.stringMatching(STEP)));
  });

  // By default a lone node has no quarantine, and a persistent one never has.
  it('of replicas promises nothing that only quarantine keeps', () => {
    const { findings } = verdictOn('role:master\r\nconnected_slaves:1\r\n');

    expect(findings[0]).toContain('a failover may forget locks that are held');
  });

  it('of a server is told without the control characters that it may send', () => {
    const { refusal } = verdictOn('role:sla\u001b[2Jve\r\n');

    expect(refusal).toMatch(/^It is a sla \[2Jve, /);
  });

  it('of clients that go by other rules ends with what to do', () => {
    expect(disagreement('0:0:0:5', worldOf(), 3)).toEqual([expect.stringMatching(STEP)]);
  });
});
