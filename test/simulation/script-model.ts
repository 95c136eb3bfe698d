// What the Lua texts of lib/nodes/redis-scripts.ts do, in TypeScript: written once, used by every
// simulated server, and compared with real servers by script-model.spec.ts.
import { lowestTokenOf } from '../../lib/core/fencing.js';
import { mostOf, NOBODY } from '../../lib/core/lock-node.js';
import type {
  AcquireAnswer,
  ExtendAnswer,
  InspectAnswer,
  OwnerRequest,
  ReleaseAnswer,
  ReleaseRequest,
  Told,
  World,
} from '../../lib/core/lock-node.js';
import { TAGS, timeOf } from '../../lib/nodes/redis-stamp.js';

/** What a server holds under a key. */
export interface StoredValue {
  /** A string, or the fields of a hash: these are never changed, but replaced. */
  readonly value: string | Fields;
  /** On the server's clock, in whole ms; Infinity without a ttl. Lives in this ms too. */
  readonly expiresAt: number;
}

/** The fields of a hash. */
export type Fields = ReadonlyMap<string, string>;

/** What a script finds on the server when it runs. */
export interface ScriptMoment {
  /** The server's clock, in whole µs. */
  readonly now: number;
  /** `master_replid`; null where scripts may not ask. */
  readonly replid: string | null;
  readonly isPersistent: boolean;
  /** Whether `maxmemory` is reached: writes that need memory are refused. */
  readonly isFull: boolean;
  /** Tells those who listen for a resource, and says who the others are. */
  tell(world: World, resource: string, isListening: boolean): Told;
}

/** A script refused at its first write. */
export class OutOfMemory extends Error {}

/** What a server says then. */
const OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";

interface Certificate {
  /** µs for which the votes do not count yet. */
  readonly uncounted: number;
  readonly renewed: string | null;
}

/** The scripts over one data set. */
export class ScriptModel {
  /** Whether the running script has written: the server looks at its memory before that only. */
  #hasWritten = false;

  constructor(readonly data = new Map<string, StoredValue>()) {}

  /** @throws OutOfMemory */
  acquire(request: OwnerRequest, moment: ScriptMoment): AcquireAnswer {
    this.#hasWritten = false;
    const { world } = request;
    const certificate = this.#readCertificate(world, moment);
    const answer = this.#acquire(request, moment);
    this.#writeCertificate(world, certificate, moment);
    if (answer.vote !== 'granted' || certificate.uncounted === 0) return answer;
    return { vote: 'quarantined', remaining: Math.ceil(certificate.uncounted / 1_000) };
  }

  extend(request: OwnerRequest, moment: ScriptMoment): ExtendAnswer {
    this.#hasWritten = false;
    const { world } = request;
    const certificate = this.#readCertificate(world, moment);
    const isWhole = this.#extend(request, moment);
    this.#writeCertificate(world, certificate, moment);
    if (!isWhole) return { vote: 'revoked' };
    if (certificate.uncounted === 0) return { vote: 'granted' };
    return { vote: 'quarantined', remaining: Math.ceil(certificate.uncounted / 1_000) };
  }

  release(request: ReleaseRequest, isListening: boolean, moment: ScriptMoment): ReleaseAnswer {
    this.#hasWritten = false;
    const { world, resources, ownerId, token, wakes } = request;
    let deleted = 0;
    for (const resource of resources) {
      const key = lockKey(world, resource);
      if (this.#get(key, moment) !== ownerId) continue;
      this.data.delete(key);
      this.#hasWritten = true;
      deleted += 1;
    }
    const free = resources.filter((name) => this.#get(lockKey(world, name), moment) === null);
    const heard = deleted > 0 && wakes ? free : [];
    const told = heard.map((name) => moment.tell(world, name, isListening)).reduce(mostOf, NOBODY);
    if (deleted === resources.length || !world.fencing) return { vote: 'done', ...told };
    const low = this.#highestRefused(world, resources, moment);
    if (token > low && token <= moment.now + world.clockSkewMax * 1_000) {
      this.#record(world, resources, token, moment);
    }
    return { vote: 'done', ...told };
  }

  inspect(world: World, resource: string, moment: ScriptMoment): InspectAnswer {
    const ownerId = this.#get(lockKey(world, resource), moment);
    const found = { vote: 'found', ownerId, remaining: 0, refusal: '' } as const;
    if (ownerId === null) return { ...found, refusal: moment.isFull ? OUT_OF_MEMORY : '' };
    return { ...found, remaining: this.#pttl(lockKey(world, resource), moment) };
  }

  /** The certificate step alone: for how many ms the votes do not count yet. */
  certify(world: World, moment: ScriptMoment): number {
    this.#hasWritten = false;
    const certificate = this.#readCertificate(world, moment);
    this.#writeCertificate(world, certificate, moment);
    this.#writeRules(world, moment);
    return Math.ceil(certificate.uncounted / 1_000);
  }

  /** The highest token on record, or 0. */
  fenceOf(world: World, resource: string, moment: ScriptMoment): number {
    const key = lockKey(world, resource);
    const fences = fenceHashes(world).map((hash) => this.#fieldsOf(hash, moment).get(key) ?? '0');
    return Math.max(...fences.map(Number));
  }

  #acquire(request: OwnerRequest, moment: ScriptMoment): AcquireAnswer {
    const { world, resources, ownerId, token, ttl } = request;
    const { now } = moment;
    let owned = 0;
    for (const [nth, resource] of resources.entries()) {
      const key = lockKey(world, resource);
      const holder = this.#get(key, moment);
      if (holder === ownerId) owned += 1;
      else if (holder !== null) {
        return { vote: 'taken', remaining: this.#pttl(key, moment), nth, ownerId: holder };
      }
    }
    const nodeTime = readsClock(world) ? timeOf(Math.ceil(now / TAGS)) : 0;
    if (owned === resources.length) return { vote: 'granted', nodeTime };
    if (world.fencing) {
      const low = this.#highestRefused(world, resources, moment);
      const high = Math.max(now + world.clockSkewMax * 1_000, low + 2);
      if (lowestTokenOf(token) <= low) return { vote: 'stale', isAhead: false, low, nodeTime };
      if (token > high) return { vote: 'stale', isAhead: true, low, nodeTime };
    }
    if (moment.isFull) throw new OutOfMemory();
    for (const resource of resources) {
      this.#set(lockKey(world, resource), ownerId, ttl, moment);
    }
    if (world.fencing) this.#record(world, resources, token, moment);
    return { vote: 'granted', nodeTime };
  }

  #extend(request: OwnerRequest, moment: ScriptMoment): boolean {
    const { world, resources, ownerId, ttl } = request;
    for (const resource of resources) {
      const holder = this.#get(lockKey(world, resource), moment);
      if (holder !== null && holder !== ownerId) return false;
    }
    let isWhole = true;
    for (const resource of resources) {
      const key = lockKey(world, resource);
      if (this.#get(key, moment) === null) {
        isWhole = false;
        this.#restore(request, resource, moment);
      } else if (this.#pttl(key, moment) < ttl) {
        this.#set(key, ownerId, ttl, moment);
      }
    }
    return isWhole;
  }

  #restore(request: OwnerRequest, resource: string, moment: ScriptMoment): void {
    const { world, ownerId, token, ttl } = request;
    if (!this.#canStore(moment)) return;
    this.#set(lockKey(world, resource), ownerId, ttl, moment);
    if (!world.fencing) return;
    const fence = this.fenceOf(world, resource, moment);
    if (token > fence) this.#record(world, [resource], token, moment);
  }

  #readCertificate(world: World, moment: ScriptMoment): Certificate {
    if (world.quarantine === 0) return { uncounted: 0, renewed: null };
    const { now, replid, isPersistent } = moment;
    const quarantine = world.quarantine * 1_000;
    const stored = this.#get(certificateKey(world), moment) ?? '';
    const border = stored.lastIndexOf(':');
    const known = border < 0 ? '' : stored.slice(0, border);
    const birth = border < 0 ? NaN : Number(stored.slice(border + 1));
    const isForeign = replid !== null && replid !== known && !isPersistent;
    if (Number.isNaN(birth) || isForeign || birth > now + 1_000_000) {
      return { uncounted: quarantine, renewed: `${replid ?? '?'}:${now}` };
    }
    return { uncounted: Math.max(0, quarantine - (now - birth)), renewed: null };
  }

  #writeCertificate(world: World, { renewed }: Certificate, moment: ScriptMoment): void {
    if (renewed === null || !this.#canStore(moment)) return;
    this.data.set(certificateKey(world), { value: renewed, expiresAt: Infinity });
  }

  #writeRules(world: World, moment: ScriptMoment): void {
    if (!this.#canStore(moment)) return;
    const retention = world.fencing ? world.fenceRetention : 0;
    const value = `${world.clockSkewMax}:${retention}:${world.quarantine}:3`;
    this.data.set(rulesKey(world), { value, expiresAt: Infinity });
  }

  #highestRefused(world: World, resources: readonly string[], moment: ScriptMoment): number {
    const fences = resources.map((resource) => this.fenceOf(world, resource, moment));
    return Math.max(moment.now - world.clockSkewMax * 1_000, ...fences);
  }

  #record(world: World, resources: readonly string[], token: number, moment: ScriptMoment): void {
    const retention = world.fenceRetention * 1_000;
    const period = Math.floor(moment.now / retention);
    const hash = fenceHashes(world)[period % 2 === 0 ? 0 : 1];
    const ends = (period + 2) * retention;
    const known = Number(this.#fieldsOf(hash, moment).get('') ?? '0');
    if (known <= moment.now) {
      // Needs no memory, and counts as a write.
      this.data.delete(hash);
      this.#hasWritten = true;
    }
    if (!this.#canStore(moment)) return;
    const fields = new Map(this.#fieldsOf(hash, moment));
    let ttl = this.#pttl(hash, moment);
    if (known < ends || known > moment.now + 30_000_000) {
      fields.set('', String(ends).padStart(65, '0'));
      ttl = 3 * world.fenceRetention;
    }
    for (const resource of resources) fields.set(lockKey(world, resource), String(token));
    this.#set(hash, fields, ttl, moment);
  }

  #fieldsOf(hash: string, moment: ScriptMoment): Fields {
    const value = this.#read(hash, moment);
    return value instanceof Map ? value : new Map();
  }

  #get(key: string, moment: ScriptMoment): string | null {
    const value = this.#read(key, moment);
    return typeof value === 'string' ? value : null;
  }

  #read(key: string, moment: ScriptMoment): StoredValue['value'] | null {
    const stored = this.data.get(key);
    if (stored === undefined) return null;
    if (millisecondOf(moment) <= stored.expiresAt) return stored.value;
    this.data.delete(key);
    return null;
  }

  #pttl(key: string, moment: ScriptMoment): number {
    return (this.data.get(key)?.expiresAt ?? 0) - millisecondOf(moment);
  }

  #canStore({ isFull }: ScriptMoment): boolean {
    return !isFull || this.#hasWritten;
  }

  #set(key: string, value: StoredValue['value'], ttl: number, moment: ScriptMoment): void {
    this.#hasWritten = true;
    this.data.set(key, { value, expiresAt: millisecondOf(moment) + ttl });
  }
}

/** The key of a lock on a server. */
export function lockKey(world: World, resource: string): string {
  return world.keyPrefix + resource;
}

/** The keys of a server's fence records: those of the even periods, and those of the odd. */
export function fenceHashes({ keyPrefix }: World): readonly [string, string] {
  return [`${keyPrefix}redlock:fences:even`, `${keyPrefix}redlock:fences:odd`];
}

/** Where a server tells of a resource's releases. */
export function wakeChannel(world: World, resource: string): string {
  return `${world.keyPrefix}redlock:wake:${resource}`;
}

/** The key of a server's birth certificate. */
export function certificateKey(world: World): string {
  return `${world.keyPrefix}redlock:node`;
}

/** The key of what the last client to connect goes by. */
export function rulesKey(world: World): string {
  return `${world.keyPrefix}redlock:rules`;
}

function readsClock(world: World): boolean {
  return world.fencing || world.quarantine > 0;
}

function millisecondOf(moment: ScriptMoment): number {
  return Math.floor(moment.now / 1_000);
}
