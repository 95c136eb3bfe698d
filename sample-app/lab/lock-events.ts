// What the library publishes on its diagnostics channels, as lines of the log.
import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import {
  RedlockError,
  type AcquireMessage,
  type ExtendMessage,
  type LostMessage,
  type NodeMessage,
  type ReleaseMessage,
} from 'nestjs-locked';

import type { LogKind, LogLine } from './messages.js';

/** What only some lines have. */
type LineDetails = Partial<Pick<LogLine, 'votes' | 'ownerId'>>;

/**
 * Listens to all locks of this process, until the returned function is called.
 * @param source names the process in the log
 */
export function listenToLocks(source: string, onLine: (line: LogLine) => void): () => void {
  const tell = (kind: LogKind, text: string, details: LineDetails = {}): void =>
    onLine(logLine(kind, source, text, details));
  const ends = [
    on('acquire', ({ resources, waited, error, ownerId, fencingToken }) => {
      if (error === undefined) {
        const after = `after ${waited.toFixed(0)} ms`;
        const text = `${resources.join(', ')} acquired ${after}, fencing token ${fencingToken ?? 0}`;
        tell('acquired', text, { ownerId });
      } else {
        const votes = error instanceof RedlockError ? error.votes : [];
        tell('refused', describe(error), { votes });
      }
    }),
    on('extend', ({ resources, remaining }) =>
      tell('extended', `${resources.join(', ')} extended, valid for ${remaining.toFixed(0)} ms`),
    ),
    on('release', ({ resources, heldFor }) =>
      tell('released', `${resources.join(', ')} released after ${heldFor.toFixed(0)} ms`),
    ),
    on('lost', ({ resources, reason }) => tell('lost', `${resources.join(', ')} lost: ${reason}`)),
  ];
  return () => ends.forEach((end) => end());
}

/** Listens to what this process hears of its nodes, until the returned function is called. */
export function listenToNodes(source: string, onLine: (line: LogLine) => void): () => void {
  return on('node', ({ status, message }) =>
    onLine(logLine('node', source, `${status.name}: ${message}`)),
  );
}

/** Makes a line for the log, with the current time. */
export function logLine(
  kind: LogKind,
  source: string,
  text: string,
  { votes = [], ownerId = null }: LineDetails = {},
): LogLine {
  return { id: randomUUID(), at: Date.now(), kind, source, text, votes, ownerId };
}

/** Listens to one of the library's channels, until the returned function is called. */
export function on<Event extends keyof LockMessages>(
  event: Event,
  listener: (message: LockMessages[Event]) => void,
): () => void {
  const name = `nestjs-locked:${event}`;
  const onMessage = (message: unknown): void => listener(message as LockMessages[Event]);
  subscribe(name, onMessage);
  return () => void unsubscribe(name, onMessage);
}

/** What each channel of the library carries. */
interface LockMessages {
  readonly acquire: AcquireMessage;
  readonly extend: ExtendMessage;
  readonly release: ReleaseMessage;
  readonly lost: LostMessage;
  readonly node: NodeMessage;
}

// Without the votes, which stand at the end of the library's messages: the page shows them apart.
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return `${error.name}: ${error.message.replace(/\.? Nodes: .*$/s, '')}`;
}
