// The canvas of the timeline: uPlot does the axes, the zoom and the scales; we draw the bars.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import type { Instant, Visit } from '../lab/messages.js';
import { COUNTERS } from '../lab/sale-limits.js';
import { insideOf, sharedOf, type Span } from './overlaps.js';
import { wallTime } from './wall-time.js';

/** What is drawn. */
export interface Scene {
  /** Those that are in view. */
  readonly visits: readonly Visit[];
  readonly overlaps: readonly Span[];
  readonly lanes: number;
  readonly view: Span;
  readonly now: Instant;
  /** Wall clock minus `Instant`, in ms: for the axis. */
  readonly wallOffset: number;
}

const LANE_HEIGHT = 64;
const AXIS_HEIGHT = 34;
/** A drag shorter than this is a click; in px. */
const DRAG_MIN = 4;

export class TimelinePlot {
  readonly #plot: uPlot;
  readonly #element: HTMLElement;
  #scene: Scene;
  #colours: Colours;

  /** @param onZoom gets the span that a drag over the bars has chosen */
  constructor(element: HTMLElement, scene: Scene, onZoom: (span: Span) => void) {
    this.#element = element;
    this.#scene = scene;
    this.#colours = readColours(element);
    this.#plot = new uPlot(this.#options(onZoom), [[0], [0]], element);
  }

  draw(scene: Scene): void {
    const hasNewSize = scene.lanes !== this.#scene.lanes;
    this.#scene = scene;
    if (hasNewSize) this.resize();
    this.#plot.setScale('x', { min: scene.view.from, max: scene.view.to });
  }

  /** Fits the element's width, and takes its colours. */
  resize(): void {
    this.#colours = readColours(this.#element);
    this.#plot.setSize(this.#size());
  }

  destroy(): void {
    this.#plot.destroy();
  }

  #size(): { width: number; height: number } {
    const height = this.#scene.lanes * LANE_HEIGHT + AXIS_HEIGHT;
    return { width: Math.max(200, this.#element.clientWidth), height };
  }

  #options(onZoom: (span: Span) => void): uPlot.Options {
    const stroke = (): string => this.#colours.muted;
    const grid = { stroke: (): string => this.#colours.line, width: 1 };
    return {
      ...this.#size(),
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: {
        x: { time: false, range: () => [this.#scene.view.from, this.#scene.view.to] },
        y: { range: () => [0, this.#scene.lanes] },
      },
      series: [{}, { show: false, scale: 'y' }],
      axes: [
        {
          stroke,
          grid,
          ticks: grid,
          size: AXIS_HEIGHT,
          font: FONT,
          values: (_plot, instants, _axis, _space, step) =>
            instants.map((instant) => this.#timeOf(instant, step)),
        },
        {
          stroke,
          grid,
          ticks: { show: false },
          size: 34,
          font: FONT,
          scale: 'y',
          splits: () => Array.from({ length: this.#scene.lanes + 1 }, (_, lane) => lane),
          values: () => [],
        },
      ],
      hooks: {
        draw: [(plot) => this.#drawBars(plot)],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < DRAG_MIN) return;
            onZoom({ from: plot.posToVal(left, 'x'), to: plot.posToVal(left + width, 'x') });
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    };
  }

  /** As fine as the steps of the axis are. */
  #timeOf(instant: Instant, step: number): string {
    const time = wallTime(Math.round(instant + this.#scene.wallOffset));
    if (step >= 1_000) return time.slice(0, 'hh:mm:ss'.length);
    return time.slice('hh:'.length, step >= 100 ? 'hh:mm:ss.t'.length : undefined);
  }

  #drawBars(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const { visits, lanes } = this.#scene;
    ctx.save();
    this.#drawLaneNames(plot);
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const visit of visits) if (visit.replica <= lanes) this.#drawVisit(plot, visit);
    ctx.restore();
  }

  #drawLaneNames({ ctx, bbox }: uPlot): void {
    const height = bbox.height / this.#scene.lanes;
    ctx.fillStyle = this.#colours.text;
    ctx.font = `600 ${12 * devicePixelRatio}px ${FAMILY}`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    for (let lane = 0; lane < this.#scene.lanes; lane += 1) {
      ctx.fillText(`R${lane + 1}`, bbox.left / 2, bbox.top + (lane + 0.5) * height);
    }
  }

  #drawVisit(plot: uPlot, visit: Visit): void {
    const { ctx } = plot;
    const { now, overlaps } = this.#scene;
    const { muted, held, wait, refused } = this.#colours;
    const row = rowOf(plot, visit, this.#scene.lanes);
    const inside = insideOf(visit, now);
    const waitEnd = inside?.from ?? visit.leftAt ?? now;
    const isRefused = visit.outcome === 'no lock' || visit.outcome === 'lock lost';
    ctx.fillStyle = isRefused ? refused : wait;
    fill(plot, { from: visit.cameAt, to: waitEnd }, row.top + row.height * 0.34, row.height * 0.32);
    if (isRefused) this.#drawCross(plot, visit.leftAt ?? now, row);
    if (inside === null) return;
    ctx.fillStyle = visit.outcome === 'sold out' ? muted : held;
    const width = fill(plot, inside, row.top, row.height);
    for (const span of sharedOf(visit, overlaps)) this.#drawOverlap(plot, span, row);
    if (visit.token !== null) this.#drawToken(plot, inside.from, width, visit.token, row);
  }

  /** Hatched, so that it is seen without its colour too. */
  #drawOverlap(plot: uPlot, span: Span, { top, height }: Row): void {
    const { ctx } = plot;
    ctx.fillStyle = this.#colours.overlap;
    const width = fill(plot, span, top, height);
    const left = plot.valToPos(span.from, 'x', true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.strokeStyle = this.#colours.surface;
    ctx.lineWidth = devicePixelRatio;
    const step = 6 * devicePixelRatio;
    ctx.beginPath();
    for (let x = left - height; x < left + width; x += step) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.stroke();
    ctx.restore();
  }

  #drawCross(plot: uPlot, at: Instant, { top, height }: Row): void {
    const { ctx } = plot;
    const x = plot.valToPos(at, 'x', true);
    const size = height * 0.3;
    const y = top + height / 2;
    ctx.strokeStyle = this.#colours.refused;
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x + size, y - size);
    ctx.lineTo(x - size, y + size);
    ctx.stroke();
  }

  #drawToken(plot: uPlot, from: Instant, width: number, token: number, row: Row): void {
    const { ctx } = plot;
    ctx.font = `${9.5 * devicePixelRatio}px ${FAMILY}`;
    const start = plot.valToPos(from, 'x', true);
    const left = Math.max(start, plot.bbox.left);
    const room = start + width - left - 4 * devicePixelRatio;
    // All of it if there is room, else its end, in which tokens differ.
    const text = [`#${token}`, String(token).slice(-6)].find(
      (text) => ctx.measureText(text).width < room,
    );
    if (text === undefined) return;
    ctx.fillStyle = this.#colours.onHeld;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.fillText(text, left + 3 * devicePixelRatio, row.top + row.height / 2 + 0.5);
  }
}

interface Row {
  readonly top: number;
  readonly height: number;
}

function rowOf({ bbox }: uPlot, { replica, counter }: Visit, lanes: number): Row {
  const lane = bbox.height / lanes;
  const gap = 4 * devicePixelRatio;
  const row = (lane - 2 * gap) / COUNTERS;
  return { top: bbox.top + (replica - 1) * lane + gap + counter * row + 1, height: row - 2 };
}

/** Fills a span, at least one pixel wide; returns its width. */
function fill(plot: uPlot, { from, to }: Span, top: number, height: number): number {
  const left = plot.valToPos(from, 'x', true);
  const width = Math.max(1, plot.valToPos(to, 'x', true) - left);
  plot.ctx.fillRect(left, top, width, height);
  return width;
}

type Colours = Record<
  'text' | 'muted' | 'line' | 'surface' | 'held' | 'onHeld' | 'wait' | 'overlap' | 'refused',
  string
>;

/** The page's colours as they are now, light or dark. */
function readColours(element: HTMLElement): Colours {
  const probe = document.createElement('span');
  element.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    text: read('text'),
    muted: read('muted'),
    line: read('line'),
    surface: read('surface'),
    held: read('held'),
    onHeld: read('on-held'),
    wait: read('wait'),
    overlap: read('overlap'),
    refused: read('warn'),
  };
  probe.remove();
  return colours;
}

const FAMILY = 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace';
const FONT = `11px ${FAMILY}`;
