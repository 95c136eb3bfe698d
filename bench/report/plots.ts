// Plots as SVG, written by hand: a bar is the median of the rounds, the line on it their range.
import { kindOf } from '../candidates/catalogue.js';
import { formatNumber } from './numbers.js';
import type { Figure } from '../measure/statistics.js';
import type { Group, Metric, Row } from '../scenarios/scenario.js';
import type { ScenarioRecord } from './results.js';

/** A picture and its file's name. */
export interface Plot {
  readonly name: string;
  readonly svg: string;
}

/** The file of a scenario's metric. */
export function plotNameOf(id: string, key: string): string {
  return `${id.toLowerCase()}-${key.toLowerCase()}.svg`;
}

/** One plot for each metric for which the scenario wants one. */
export function renderPlots(record: ScenarioRecord): Plot[] {
  return record.plotted.flatMap((key) => {
    const metric = record.metrics.find((candidate) => candidate.key === key);
    return metric === undefined
      ? []
      : [{ name: plotNameOf(record.id, key), svg: renderPlot(record, metric) }];
  });
}

const WIDTH = 760;
const LABEL_WIDTH = 210;
const VALUE_WIDTH = 90;
const BAR_HEIGHT = 14;
const LINE_HEIGHT = 20;
const GROUP_GAP = 30;
const HEAD_HEIGHT = 44;
/** If the figures differ by more than this factor, the scale is logarithmic. */
const LINEAR_RATIO_MAX = 40;

type Scale = (value: number) => number;

function renderPlot(record: ScenarioRecord, metric: Metric): string {
  const figures = record.groups.flatMap(({ rows }) => rows.flatMap((row) => valuesOf(row, metric)));
  const scale = scaleOf(figures);
  let top = HEAD_HEIGHT;
  const groups = record.groups.map((group) => {
    const drawn = renderGroup(group, metric, scale.toLength, top);
    top += heightOf(group);
    return drawn;
  });
  const unit = metric.unit === '' ? '' : ` [${metric.unit}]`;
  const hint = scale.isLogarithmic ? ', logarithmic' : '';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top + 8}" role="img" aria-label="${escape(`${record.id}: ${metric.label}`)}">
<style>
text { font: 12px system-ui, sans-serif; fill: #333 }
.head { font-weight: 600; font-size: 14px }
.group { font-weight: 600 }
.ours { fill: #2f7ed8 } .peer { fill: #d98032 } .limit { fill: #8a8a8a }
.span { stroke: #111; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .span { stroke: #fff } }
</style>
<text class="head" x="8" y="20">${escape(`${record.id}: ${metric.label}${unit}${hint}`)}</text>
${groups.join('\n')}
</svg>
`;
}

function renderGroup({ rows, title }: Group, metric: Metric, scale: Scale, top: number): string {
  const heading =
    title === '' ? '' : `<text class="group" x="8" y="${top + 12}">${escape(title)}</text>`;
  const first = top + (title === '' ? 0 : LINE_HEIGHT);
  const bars = rows.map((row, index) => renderBar(row, metric, scale, first + index * LINE_HEIGHT));
  return [heading, ...bars].join('\n');
}

function heightOf({ rows, title }: Group): number {
  return (rows.length + (title === '' ? 0 : 1)) * LINE_HEIGHT + GROUP_GAP - LINE_HEIGHT / 2;
}

function renderBar(row: Row, { key }: Metric, scale: Scale, top: number): string {
  const middle = top + BAR_HEIGHT / 2;
  const text = (x: number, anchor: string, content: string): string =>
    `<text x="${x}" y="${middle + 4}" text-anchor="${anchor}">${escape(content)}</text>`;
  const label = text(LABEL_WIDTH - 8, 'end', row.label);
  const figure = row.figures[key];
  if (!isDrawable(figure)) {
    return label + text(LABEL_WIDTH, 'start', row.failure === null ? '–' : 'failed');
  }
  const { max, median, min } = figure;
  const length = scale(median);
  const [from, to] = [LABEL_WIDTH + scale(min), LABEL_WIDTH + scale(max)];
  return [
    label,
    `<rect class="${kindOf(row.candidate)}" x="${LABEL_WIDTH}" y="${top}" width="${length.toFixed(1)}" height="${BAR_HEIGHT}"/>`,
    `<line class="span" x1="${from.toFixed(1)}" x2="${to.toFixed(1)}" y1="${middle}" y2="${middle}"/>`,
    text(Math.max(LABEL_WIDTH + length, to) + 6, 'start', formatNumber(median)),
  ].join('');
}

function scaleOf(values: readonly number[]): {
  readonly toLength: Scale;
  readonly isLogarithmic: boolean;
} {
  const greatest = Math.max(...values, Number.MIN_VALUE);
  const least = Math.min(...values.filter((value) => value > 0), greatest);
  const length = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
  if (greatest / least <= LINEAR_RATIO_MAX) {
    return { isLogarithmic: false, toLength: (value) => Math.max(0, value / greatest) * length };
  }
  const decades = Math.log(greatest / least) + 1;
  const share = (value: number): number => (Math.log(value / least) + 1) / decades;
  return {
    isLogarithmic: true,
    toLength: (value) => (value <= 0 ? 0 : Math.max(0, share(value)) * length),
  };
}

function valuesOf(row: Row, { key }: Metric): number[] {
  const figure = row.figures[key];
  return isDrawable(figure) ? [figure.median, figure.max] : [];
}

function isDrawable(figure: Figure | undefined): figure is Figure {
  return figure !== undefined && Number.isFinite(figure.median) && Number.isFinite(figure.max);
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
