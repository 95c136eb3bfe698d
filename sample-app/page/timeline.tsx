import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';

import { VISITS_KEPT } from '../lab/kept.js';
import type { Instant, SaleState, Visit } from '../lab/messages.js';
import { sale, serverNow, visits } from './lab-state.js';
import { insideOf, overlapsOf, sharedOf, type Span } from './overlaps.js';
import { TimelinePlot, type Scene } from './timeline-plot.js';

const WINDOWS = [0.5, 1, 2, 5, 10, 30, 60];
const FRAME = matchMedia('(prefers-reduced-motion: reduce)').matches ? 1_000 : 50;

/** What the picture is of. */
interface Subject {
  readonly visits: readonly Visit[];
  readonly sale: SaleState | null;
}

/** What is shown while the picture is paused; null while it follows the time. */
const paused = signal<(Subject & { readonly view: Span }) | null>(null);
/** How many seconds are shown at once. */
const seconds = signal(2);

/** Who was inside when, on one time axis for all replicas. */
export function Timeline() {
  return (
    <section class="panel timeline" aria-labelledby="timeline-title">
      <header class="panel-head">
        <h2 id="timeline-title">Timeline</h2>
        <Legend />
        <Controls />
      </header>
      <Plot />
      <Summary />
    </section>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <span class="swatch wait" /> waits
      </li>
      <li>
        <span class="swatch held" /> inside, with the end of its fencing token
      </li>
      <li>
        <span class="swatch overlap" /> overlap
      </li>
      <li>
        <span class="swatch refused" /> ✕ no lock
      </li>
    </ul>
  );
}

function Controls() {
  const isPaused = paused.value !== null;
  return (
    <div class="buttons" role="group" aria-label="Timeline view">
      <button type="button" onClick={() => zoom(1)} aria-label="Zoom out">
        −
      </button>
      <output class="zoom" aria-label="Time seen">
        {seconds.value} s
      </output>
      <button type="button" onClick={() => zoom(-1)} aria-label="Zoom in">
        +
      </button>
      <button type="button" disabled={!isPaused} onClick={() => pan(-0.5)} aria-label="Earlier">
        ◀
      </button>
      <button type="button" disabled={!isPaused} onClick={() => pan(0.5)} aria-label="Later">
        ▶
      </button>
      <button type="button" class="toggle" aria-pressed={isPaused} onClick={togglePause}>
        {isPaused ? 'Go on' : 'Pause'}
      </button>
    </div>
  );
}

function Plot() {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (element.current === null) return undefined;
    const plot = new TimelinePlot(element.current, sceneNow(), look);
    const frames = setInterval(() => {
      if (!document.hidden) plot.draw(sceneNow());
    }, FRAME);
    const resize = (): void => plot.resize();
    const observer = new ResizeObserver(resize);
    observer.observe(element.current);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', resize);
    return () => {
      clearInterval(frames);
      observer.disconnect();
      dark.removeEventListener('change', resize);
      plot.destroy();
    };
  }, []);
  return <div class="plot" ref={element} role="img" aria-labelledby="timeline-summary" />;
}

/** The picture in words: for those who cannot see it, and for those who want numbers. */
function Summary() {
  const subject = subjectNow();
  const startedAt = subject.sale?.startedAt ?? 0;
  const shown = subject.visits.filter(({ cameAt }) => cameAt >= startedAt);
  const inside = shown.filter((visit) => insideOf(visit, 0) !== null);
  const overlapping = useMemo(() => {
    const overlaps = overlapsOf(shown);
    return shown.filter((visit) => sharedOf(visit, overlaps).length > 0).length;
  }, [visits.value, paused.value, startedAt]);
  // Once that many are known, the sale's first ones may have been dropped.
  const isWhole = shown.length < VISITS_KEPT;
  const isOpen = useSignal(false);
  return (
    <>
      <p id="timeline-summary" class={`summary ${kindOf(inside.length, overlapping)}`}>
        {summaryOf(inside.length, overlapping, isWhole)}
      </p>
      <details onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>The last turns as a table</summary>
        {isOpen.value && <Turns inside={inside.slice(-12).reverse()} />}
      </details>
    </>
  );
}

function kindOf(inside: number, overlapping: number): string {
  if (inside === 0) return '';
  return overlapping > 0 ? 'bad' : 'good';
}

function summaryOf(inside: number, overlapping: number, isWhole: boolean): string {
  if (inside === 0) return 'Nobody has been inside yet. Start a sale.';
  const turns = `the ${isWhole ? '' : 'last '}${inside} turns of this sale`;
  if (overlapping === 0) return `✓ No overlap among ${turns}.`;
  return `▲ ${overlapping} of ${turns} overlapped with another.`;
}

function Turns({ inside }: { readonly inside: readonly Visit[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="The last turns">
      <table>
        <thead>
          <tr>
            <th scope="col">Replica</th>
            <th scope="col">Fencing token</th>
            <th scope="col">Waited</th>
            <th scope="col">Inside</th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          {inside.map((visit) => (
            <tr key={visit.id}>
              <td>R{visit.replica}</td>
              <td class="mono">{visit.token ?? 'no lock'}</td>
              <td>{((visit.enteredAt ?? 0) - visit.cameAt).toFixed(0)} ms</td>
              <td>
                {visit.leftAt === null
                  ? 'still'
                  : `${(visit.leftAt - (visit.enteredAt ?? 0)).toFixed(1)} ms`}
              </td>
              <td>{visit.outcome ?? 'not yet'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Another sale does not change a paused picture. */
function subjectNow(): Subject {
  return paused.value ?? { visits: visits.value, sale: sale.value };
}

function sceneNow(): Scene {
  const now = serverNow();
  const { visits: all, sale } = subjectNow();
  const view = paused.value?.view ?? latest(all, now);
  const seen = all.filter((visit) => visit.cameAt < view.to && (visit.leftAt ?? now) > view.from);
  return {
    view,
    now,
    visits: seen,
    overlaps: overlapsOf(seen),
    lanes: sale?.settings.replicas ?? 3,
    wallOffset: Date.now() - now,
  };
}

/** The span to show: up to now while somebody is there, else up to when the last one left. */
function latest(all: readonly Visit[], now: Instant): Span {
  const length = seconds.value * 1_000;
  const last = Math.max(...all.map(({ leftAt }) => leftAt ?? now));
  const to = Number.isFinite(last) ? Math.min(now, last + length / 20) : now;
  return { from: to - length, to };
}

function togglePause(): void {
  if (paused.value === null) look(sceneNow().view);
  else paused.value = null;
}

/** Pauses the picture, and shows this piece of it. */
function look(view: Span): void {
  paused.value = { ...subjectNow(), view };
  seconds.value = Number(((view.to - view.from) / 1_000).toPrecision(2));
}

function zoom(steps: 1 | -1): void {
  const known = steps === 1 ? WINDOWS : WINDOWS.toReversed();
  const next = known.find((window) => (window - seconds.value) * steps > 0) ?? seconds.value;
  seconds.value = next;
  if (paused.value === null) return;
  const { view } = paused.value;
  const middle = (view.from + view.to) / 2;
  const half = next * 500;
  look({ from: middle - half, to: middle + half });
}

function pan(share: number): void {
  if (paused.value === null) return;
  const { view } = paused.value;
  const distance = (view.to - view.from) * share;
  look({ from: view.from + distance, to: view.to + distance });
}
