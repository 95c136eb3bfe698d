import type { Changes, Snapshot } from '../lab/messages.js';
import { clock, connection, serverNow, takeChanges, takeSnapshot } from './lab-state.js';

/** Listens to the server while the page can be seen, and reconnects when it has gone. */
export function connect(): void {
  // All tabs of a browser share six connections to a server: one that listens unseen keeps others
  // from asking anything.
  if (document.hidden) {
    document.addEventListener('visibilitychange', connect, { once: true });
    return;
  }
  const source = new EventSource('/lab/events');
  let heardAt = performance.now();
  const end = (state: 'connecting' | 'lost'): void => {
    document.removeEventListener('visibilitychange', hide);
    clearInterval(watch);
    source.close();
    connection.value = state;
  };
  const hide = (): void => {
    end('connecting');
    connect();
  };
  const again = (): void => {
    end('lost');
    setTimeout(connect, RETRY_AFTER);
  };
  document.addEventListener('visibilitychange', hide);
  // A connection that broke without notice shows by its silence.
  const watch = setInterval(() => {
    if (performance.now() - heardAt > SILENCE_MAX) again();
  }, SILENCE_MAX / 4);
  const hear = <Type extends keyof Messages>(
    type: Type,
    take: (message: Messages[Type]) => void,
  ): void => {
    source.addEventListener(type, (event: MessageEvent<string>) => {
      heardAt = performance.now();
      take(JSON.parse(event.data) as Messages[Type]);
    });
  };
  hear('snapshot', (snapshot) => {
    connection.value = 'open';
    takeSnapshot(snapshot);
  });
  hear('changes', takeChanges);
  source.addEventListener('error', again);
}

interface Messages {
  readonly snapshot: Snapshot;
  readonly changes: Changes;
}

/** Updates what runs down on the page. */
export function startClock(): void {
  setInterval(() => {
    clock.value = serverNow();
  }, TICK);
}

const RETRY_AFTER = 1_000;
// The server says something at least every 2 s.
const SILENCE_MAX = 8_000;
const TICK = 100;
