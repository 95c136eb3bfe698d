// Recomputes, from what really went to and came from the servers, until when each lock may be
// relied on (PROTOCOL.md sections 3 to 5), without a look into the core. It counts each lease
// from the moment when the command was handed over, which is later than what the core reads: so
// a claim beyond it is wrong, and one short of it need not be.
import type { OwnerRequest } from '../../../lib/core/lock-node.js';
import type { Reply } from '../simulated-server.js';
import type { SimulatedMachine } from '../simulated-machine.js';
import type { Findings } from './findings.js';

/** The same guard and drift as in PROTOCOL.md, written down a second time on purpose. */
const GUARD = 2;

interface LeaseRecord {
  readonly ttl: number;
  /** True time of the attempt's first command. */
  readonly beganAt: number;
  readonly leases: number[];
  readonly revokedAt: number[];
  readonly answeredBy: Set<number>;
  validUntil: number;
  /** Monotonic time of the last revocation. */
  revisedAt: number;
  /** How long the machine had stood still before. */
  readonly pausedBefore: number;
  /** True time at which it was decided that a quorum had granted. */
  decidedAt: number;
  isGrantTooLate: boolean;
  /** Its end has been seen, by time or by release. */
  isOver: boolean;
}

/** What one process's locks rest on. */
export class LeaseCheck {
  /** Owners whose body runs: their keys must stay, also when the lock is lost. */
  readonly bodies = new Set<string>();
  readonly #records = new Map<string, LeaseRecord>();

  constructor(
    private readonly machine: SimulatedMachine,
    private readonly nodeCount: number,
    private readonly driftFactor: number,
    private readonly findings: Findings,
  ) {}

  /** A command is handed over. Returns the monotonic time of that. */
  asked(request: OwnerRequest): number {
    const askedAt = this.#now();
    if (!this.#records.has(request.ownerId)) {
      this.#records.set(request.ownerId, this.#newRecord(request));
    }
    return askedAt;
  }

  /** An answer is handed over. */
  answered(
    kind: 'acquire' | 'extend',
    request: OwnerRequest,
    node: number,
    askedAt: number,
    reply: Reply,
  ): void {
    const record = this.#records.get(request.ownerId);
    if (record === undefined) return;
    const now = this.#now();
    if (kind === 'acquire') {
      if (record.answeredBy.has(node)) return;
      record.answeredBy.add(node);
    }
    // Lost is terminal: an answer that comes after the end of the validity revives nothing.
    if (record.validUntil > -Infinity && now >= record.validUntil) record.isOver = true;
    if (record.isOver) return;
    if (reply.vote === 'granted') this.#grant(record, node, askedAt, request.ttl);
    if (reply.vote === 'revoked') {
      record.leases[node] = -Infinity;
      record.revokedAt[node] = now;
      record.revisedAt = now;
      this.#settle(record);
    }
  }

  /** A release is handed over: from now on nothing may be claimed. */
  released(request: OwnerRequest): void {
    const record = this.#records.get(request.ownerId);
    if (record !== undefined) record.isOver = true;
    if (!this.bodies.has(request.ownerId)) return;
    const message = `${request.ownerId} is released while its body runs`;
    this.findings.add('body', this.machine.trueNow, message);
  }

  /** Somebody was told that the lock is held. */
  claimed(ownerId: string): void {
    const record = this.#records.get(ownerId);
    const now = this.#now();
    const at = this.machine.trueNow;
    if (record === undefined) {
      this.findings.add('leases', at, `${ownerId} is claimed and was never asked for`);
    } else if (record.isOver) {
      this.findings.add('leases', at, `${ownerId} is claimed after its release or its end`);
    } else if (now >= record.validUntil) {
      const late = (now - record.validUntil).toFixed(3);
      this.findings.add('leases', at, `${ownerId} is claimed ${late} ms beyond its leases`);
    } else if (record.isGrantTooLate) {
      this.findings.add('leases', at, `${ownerId} was granted with less than half its ttl left`);
    }
  }

  /**
   * How long ago a machine that never stood still would have told the lock's loss: since its end
   * could be known by time or by an answer. A pause may delay the timer, or its start.
   */
  lossOverdueFor(ownerId: string): number {
    const record = this.#records.get(ownerId);
    if (record === undefined) return 0;
    const paused = (this.machine.paused - record.pausedBefore) * this.machine.monotonic.rate;
    return this.#now() - Math.max(record.validUntil, record.revisedAt) - paused;
  }

  /** When, in true time, the attempt began and a quorum of grants had come. */
  attemptOf(ownerId: string): { readonly beganAt: number; readonly decidedAt: number } | null {
    return this.#records.get(ownerId) ?? null;
  }

  #grant(record: LeaseRecord, node: number, askedAt: number, ttl: number): void {
    if (askedAt <= (record.revokedAt[node] ?? Infinity)) return;
    const lease = askedAt + ttl * (1 - this.driftFactor) - GUARD;
    record.leases[node] = Math.max(record.leases[node] ?? -Infinity, lease);
    const wasDecided = record.validUntil > -Infinity;
    this.#settle(record);
    if (wasDecided || record.validUntil === -Infinity) return;
    record.decidedAt = this.machine.trueNow;
    record.isGrantTooLate = this.#now() >= record.validUntil - record.ttl / 2;
  }

  #settle(record: LeaseRecord): void {
    const descending = [...record.leases].sort((a, b) => (a < b ? 1 : a > b ? -1 : 0));
    record.validUntil = descending[Math.floor(this.nodeCount / 2)] ?? -Infinity;
  }

  #newRecord(request: OwnerRequest): LeaseRecord {
    return {
      ttl: request.ttl,
      beganAt: this.machine.trueNow,
      leases: Array.from({ length: this.nodeCount }, () => -Infinity),
      revokedAt: Array.from({ length: this.nodeCount }, () => -Infinity),
      answeredBy: new Set(),
      validUntil: -Infinity,
      revisedAt: -Infinity,
      pausedBefore: this.machine.paused,
      decidedAt: Infinity,
      isGrantTooLate: false,
      isOver: false,
    };
  }

  #now(): number {
    return this.machine.monotonic.read(this.machine.trueNow);
  }
}
