// Which locks were claimed when, in true time, and whether two claims of one resource overlap.
// A claim lasts from the first to the last moment at which its holder was told that it holds.
import type { Lock } from '../../../lib/core/lock.js';
import type { SimulatedMachine } from '../simulated-machine.js';
import type { Findings } from './findings.js';
import type { LeaseCheck } from './lease-check.js';

/** One lock's claim. */
export interface Claim {
  readonly ownerId: string;
  readonly resources: readonly string[];
  readonly token: number;
  /** True time of its attempt's first command, and of the first claim. */
  readonly beganAt: number;
  readonly from: number;
  to: number;
}

/** All claims of one universe. */
export class ClaimCheck {
  readonly claims: Claim[] = [];

  constructor(private readonly findings: Findings) {}

  /** No two claims of one resource share more than `overlapMax` ms of true time. */
  checkOverlap(overlapMax: number): void {
    this.#forEachPair((first, second, resource) => {
      const overlap = Math.min(first.to, second.to) - second.from;
      if (overlap <= overlapMax) return;
      const who = `${first.ownerId} and ${second.ownerId}`;
      const message = `${who} both held ${resource} for ${overlap.toFixed(3)} ms`;
      this.findings.add('overlap', second.from, message);
    });
  }

  /** Tokens are distinct, and grow from a grant to every attempt that began after it. */
  checkTokens(): void {
    this.#forEachPair((first, second, resource) => {
      const who = `${first.ownerId} (${first.token}) and ${second.ownerId} (${second.token})`;
      if (first.token === second.token) {
        this.findings.add('tokens', second.from, `${who} have one token for ${resource}`);
      } else if (hasPrecedence(first, second) && first.token > second.token) {
        this.findings.add('tokens', second.from, `${who} have tokens in the wrong order`);
      } else if (second.from < first.beganAt && second.token > first.token) {
        this.findings.add('tokens', second.from, `${who} have tokens in the wrong order`);
      }
    });
  }

  #forEachPair(compare: (first: Claim, second: Claim, resource: string) => void): void {
    const byResource = new Map<string, Claim[]>();
    for (const claim of this.claims) {
      for (const resource of claim.resources) {
        const claims = byResource.get(resource);
        if (claims === undefined) byResource.set(resource, [claim]);
        else claims.push(claim);
      }
    }
    for (const [resource, claims] of byResource) {
      claims.sort((a, b) => a.from - b.from);
      claims.forEach((first, index) => {
        for (const second of claims.slice(index + 1)) compare(first, second, resource);
      });
    }
  }
}

/** Whether `second` was asked for after `first` was held, or got its keys from it. */
function hasPrecedence(first: Claim, second: Claim): boolean {
  return first.from < second.beganAt || first.ownerId === second.ownerId;
}

/** Follows one lock: asks it whether it is held, to the last moment and beyond. */
export class ClaimWatch {
  #claim: Claim | null = null;
  #wasLost = false;
  #isTooLong = false;
  readonly #heldFrom: number;
  readonly #pausedBefore: number;
  #looksAfterLoss = 0;

  constructor(
    readonly lock: Lock,
    private readonly machine: SimulatedMachine,
    private readonly isEnded: () => boolean,
    private readonly leases: LeaseCheck,
    private readonly claims: ClaimCheck,
    private readonly findings: Findings,
    /** How long it may be held at most: `maxHold`, and the validity that it has by then. */
    private readonly heldMax: number,
  ) {
    this.#heldFrom = machine.monotonic.read(machine.trueNow);
    this.#pausedBefore = machine.paused;
    this.look();
  }

  /** Asks, and takes a "yes" for a claim. */
  look(): boolean {
    const { lock, machine } = this;
    const at = machine.trueNow;
    const isValid = machine.probe(() => lock.isValid);
    if (!isValid) this.#wasLost = true;
    else if (this.#wasLost) {
      this.findings.add('revival', at, `${lock.ownerId} is held again after it was lost`);
    } else this.#extendClaim(at);
    return isValid;
  }

  /** Goes on asking: just before each end of the validity, just after it, and twice later. */
  follow(): void {
    if (this.isEnded()) return;
    const isValid = this.look();
    if (!isValid) {
      this.#looksAfterLoss += 1;
      if (this.#looksAfterLoss > 2) return;
    }
    const remaining = this.machine.probe(() => this.lock.remaining);
    if (isValid !== remaining > 0) {
      this.findings.add('remaining', this.machine.trueNow, `${remaining} ms, held: ${isValid}`);
    }
    const { rate } = this.machine.monotonic;
    const nextLook = remaining > LAST_MOMENT ? remaining - LAST_MOMENT / 2 : remaining + 0.1;
    const wait = isValid ? nextLook / rate : this.machine.random.between(1, 200);
    this.machine.runAfter(wait, () => {
      this.follow();
    });
  }

  #extendClaim(at: number): void {
    const { lock } = this;
    this.leases.claimed(lock.ownerId);
    if (this.#claim === null) {
      const { ownerId, resources, fencingToken: token } = lock;
      const beganAt = this.leases.attemptOf(ownerId)?.beganAt ?? at;
      this.#claim = { ownerId, resources, token, beganAt, from: at, to: at };
      this.claims.claims.push(this.#claim);
    }
    this.#claim.to = at;
    // A pause between a look at the clock and the extension prolongs it.
    const { machine } = this;
    const paused = machine.paused - this.#pausedBefore;
    const heldFor = machine.monotonic.read(at) - this.#heldFrom - paused * machine.monotonic.rate;
    if (heldFor <= this.heldMax || this.#isTooLong) return;
    this.#isTooLong = true;
    this.findings.add(
      'maxHold',
      at,
      `${lock.ownerId} is held for ${heldFor.toFixed(0)} ms already`,
    );
  }
}

/** How close to the end of the validity the last look is, in ms. */
const LAST_MOMENT = 0.02;
