import { computed, signal } from '@preact/signals';

import type { LogKind, LogLine } from '../lab/messages.js';
import { log } from './lab-state.js';
import { wallTime } from './wall-time.js';

const KINDS: readonly LogKind[] = [
  'acquired',
  'extended',
  'released',
  'refused',
  'lost',
  'node',
  'action',
];
const SHOWN_MAX = 200;

const hidden = signal<ReadonlySet<LogKind>>(new Set(['released']));
const wanted = signal('');

const shown = computed(() => {
  const text = wanted.value.trim().toLowerCase();
  return log.value
    .filter((line) => !hidden.value.has(line.kind))
    .filter((line) => text === '' || `${line.source} ${line.text}`.toLowerCase().includes(text))
    .slice(-SHOWN_MAX)
    .reverse();
});

/** What happened, newest first. */
export function LogPanel() {
  return (
    <section class="panel" aria-labelledby="log-title">
      <header class="panel-head">
        <h2 id="log-title">Log</h2>
        <label class="choice">
          <span>Contains</span>
          <input
            type="search"
            value={wanted.value}
            onInput={(event) => (wanted.value = event.currentTarget.value)}
          />
        </label>
      </header>
      <Kinds />
      <div class="lines scroll" tabIndex={0} role="region" aria-label="Log lines, newest first">
        <ol>
          {shown.value.map((line) => (
            <Line key={line.id} line={line} />
          ))}
        </ol>
        {shown.value.length === 0 && <p class="small">Nothing of this kind yet.</p>}
      </div>
    </section>
  );
}

function Kinds() {
  const toggle = (kind: LogKind): void => {
    const kinds = new Set(hidden.value);
    if (!kinds.delete(kind)) kinds.add(kind);
    hidden.value = kinds;
  };
  return (
    <div class="buttons kinds" role="group" aria-label="Kinds of lines that are shown">
      {KINDS.map((kind) => {
        const isShown = !hidden.value.has(kind);
        return (
          <button
            key={kind}
            type="button"
            class="toggle"
            aria-pressed={isShown}
            onClick={() => toggle(kind)}
          >
            {isShown ? '✓ ' : ''}
            {kind}
          </button>
        );
      })}
    </div>
  );
}

function Line({ line }: { readonly line: LogLine }) {
  const { at, kind, source, text, votes } = line;
  return (
    <li>
      <p>
        <time class="mono">{wallTime(at)}</time> <span class={`kind is-${kind}`}>{kind}</span>{' '}
        <span class="source">{source}</span> {text}
      </p>
      {votes.length > 0 && (
        <ul class="votes mono">
          {votes.map(({ node, vote, message }) => (
            <li key={node}>
              {node}: <strong>{vote}</strong> {message}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
