import { randomUUID } from 'node:crypto';

import { Injectable, type MessageEvent, type OnModuleDestroy } from '@nestjs/common';
import {
  concat,
  defer,
  filter,
  finalize,
  interval,
  map,
  of,
  ReplaySubject,
  share,
  takeUntil,
  type Observable,
} from 'rxjs';

import { now } from './clock.js';
import { LINES_KEPT, VISITS_KEPT } from './kept.js';
import { LogBook } from './log-book.js';
import { Recent } from './recent.js';
import type { Changes, LogLine, Snapshot, Visit } from './messages.js';

/** Parts of the snapshot that are replaced as a whole. */
type Parts = Omit<Snapshot, 'bootId' | 'now' | 'visits' | 'log'>;

/** What all pages are sent: the last minutes, and then what changes. */
@Injectable()
export class Feed implements OnModuleDestroy {
  readonly #bootId = randomUUID();
  // Replayed: a page that reconnects while the application ends must not keep it from ending.
  readonly #end = new ReplaySubject<void>(1);
  readonly #visits = new Recent<Visit>(VISITS_KEPT);
  readonly #log = new LogBook(LINES_KEPT);
  readonly #newVisits = new Recent<Visit>(VISITS_KEPT);
  readonly #newLines = new LogBook(LINES_KEPT);
  readonly #processes = new Recent<string>(OWNERS_MAX);
  #parts: Parts | null = null;
  #newParts: Partial<Parts> = {};
  #toldAt = now();
  #listeners = 0;

  // One for all pages: what is new for one is new for all.
  readonly #changes = interval(TELL_EVERY).pipe(
    map(() => this.#takeChanges()),
    filter((changes) => changes !== null),
    share(),
  );

  /** Whether some page is open. */
  get hasListeners(): boolean {
    return this.#listeners > 0;
  }

  /** Sets the initial state, before any page asks for it. */
  begin(parts: Parts): void {
    this.#parts = parts;
  }

  /** Replaces parts of what the pages show. */
  update(parts: Partial<Parts>): void {
    if (this.#parts === null) return;
    this.#parts = { ...this.#parts, ...parts };
    Object.assign(this.#newParts, parts);
  }

  visit(visit: Visit): void {
    this.#visits.set(visit.id, visit);
    this.#newVisits.set(visit.id, visit);
  }

  readonly log = (line: LogLine): void => {
    this.#log.add(line);
    this.#newLines.add(line);
    if (line.ownerId !== null) this.#processes.set(line.ownerId, line.source);
  };

  /** Which process has a lock, as far as recent news tell; null for somebody else's client. */
  processOf(ownerId: string | null): string | null {
    return ownerId === null ? null : (this.#processes.get(ownerId) ?? null);
  }

  /** For one page: a snapshot first, then the changes, until the application ends. */
  stream(): Observable<MessageEvent> {
    return defer(() => {
      // Nobody has been told what was new, but this page hears it all below.
      if (!this.hasListeners) this.#takeChanges();
      const { snapshot, rest } = this.#opening();
      this.#listeners += 1;
      return concat(
        of({ type: 'snapshot', data: snapshot }),
        concat(rest, this.#changes).pipe(map((data) => ({ type: 'changes', data }))),
      ).pipe(
        takeUntil(this.#end),
        finalize(() => (this.#listeners -= 1)),
      );
    });
  }

  onModuleDestroy(): void {
    this.#end.next();
  }

  // In pieces: a page on a slow line hears each of them, and does not take the server for gone.
  #opening(): { readonly snapshot: Snapshot; readonly rest: readonly Changes[] } {
    if (this.#parts === null) throw new Error('Expected begin() to be called first');
    const { values: visits } = this.#visits;
    const { lines: log } = this.#log;
    const piece = (start: number): Pick<Snapshot, 'now' | 'visits' | 'log'> => {
      const end = start + PIECE;
      return { now: now(), visits: visits.slice(start, end), log: log.slice(start, end) };
    };
    const snapshot = { ...this.#parts, bootId: this.#bootId, ...piece(0) };
    const rest: Changes[] = [];
    const length = Math.max(visits.length, log.length);
    for (let start = PIECE; start < length; start += PIECE) rest.push(piece(start));
    return { snapshot, rest };
  }

  /** Null when there is nothing to send; an empty change shows that the server is there. */
  #takeChanges(): Changes | null {
    const visits = this.#newVisits.drain();
    const log = this.#newLines.drain();
    const parts = this.#newParts;
    this.#newParts = {};
    const isNews = visits.length + log.length + Object.keys(parts).length > 0;
    if (!isNews && now() - this.#toldAt < BEAT_EVERY) return null;
    this.#toldAt = now();
    return {
      now: now(),
      ...parts,
      ...(visits.length > 0 && { visits }),
      ...(log.length > 0 && { log }),
    };
  }
}

const TELL_EVERY = 100;
const BEAT_EVERY = 2_000;
const OWNERS_MAX = 500;
/** How many visits and log lines one message holds when a page connects: about 100 kB. */
const PIECE = 100;
