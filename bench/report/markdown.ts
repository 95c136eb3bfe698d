// results.md: the goals, then a table for each group of each scenario.
import { catalogue } from '../candidates/catalogue.js';
import type { Figure } from '../measure/statistics.js';
import type { Group, Metric, Row } from '../scenarios/scenario.js';
import { checkGoals, isReached, missOf, type GoalCheck } from './goals.js';
import { formatNumber } from './numbers.js';
import { plotNameOf } from './plots.js';
import type { Results, ScenarioRecord } from './results.js';

/** The whole text. */
export function renderMarkdown(results: Results): string {
  const goals = checkGoals(results);
  const sections = results.scenarios.map((record) => renderScenario(record));
  return `# Benchmark results

Made by \`npm run bench\`; do not edit. Figures are medians over the rounds, with the least and the
greatest in brackets. Every candidate runs in a process of its own, over real servers on loopback
(S9: over none). Each round measures all of them, beginning with another one each time; only in S5,
S7 and S10 does a candidate have servers of its own, and all of its rounds before the next one. A
figure is worth something only beside the others of its table.

${renderSources(results)}

## Goals

${goals.length === 0 ? 'No figures.' : renderGoals(goals)}

${sections.join('\n')}
## Candidates

${renderCandidates()}
`;
}

function renderSources({ scenarios }: Results): string {
  const lines = scenarios.map(({ command, duration, id, isQuick, machine, measuredAt, pace }) => {
    const rounds = `${pace.rounds} x ${pace.seconds} s${isQuick ? ' (quick)' : ''}`;
    const { cores, cpu, isAwake, libraries, memory, node, redis, system } = machine;
    const awake = isAwake ? ' kept awake' : '';
    const versions = `Node ${node}, ${redis}; ${libraries}`;
    const where = `${cpu}, ${cores} cores${awake}, ${memory}, ${system}; ${versions}`;
    return `| ${id} | \`${command}\` | ${rounds} | ${Math.round(duration)} s | ${measuredAt} | ${where} |`;
  });
  return [
    '| scenario | command | rounds | took | at | machine |',
    '|---|---|---|---|---|---|',
    ...lines,
  ].join('\n');
}

function renderGoals(goals: readonly GoalCheck[]): string {
  const lines = goals.map((goal) => {
    const { bound, isAtLeast, scenario, spread, subject, value } = goal;
    const side = isAtLeast ? 'at least' : 'at most';
    const range = spread === null ? '' : ` (${spread.map(formatNumber).join(' to ')})`;
    const wanted = `${goal.goal}: ${side} ${formatNumber(bound)}`;
    return `| ${scenario} | ${subject} | ${wanted} | ${formatNumber(value)}${range} | ${verdictOf(goal)} |`;
  });
  return ['| scenario | who | goal | measured | |', '|---|---|---|---|---|', ...lines].join('\n');
}

function verdictOf(goal: GoalCheck): string {
  if (Number.isNaN(goal.value)) return 'not measured';
  if (isReached(goal)) return 'reached';
  const miss = missOf(goal);
  const amount = goal.bound === 0 ? formatNumber(miss) : `${formatNumber(miss * 100)} %`;
  return `**missed by ${amount}**`;
}

function renderScenario(record: ScenarioRecord): string {
  const { groups, id, metrics, plotted, question, title } = record;
  const plots = plotted.map((key) => `![${id}: ${key}](${plotNameOf(id, key)})`).join('\n');
  const tables = groups.map((group) => renderGroup(group, metrics)).join('\n\n');
  return `## ${id}: ${title}\n\n${question}\n\n${tables}\n\n${plots}\n`;
}

function renderGroup({ rows, title }: Group, metrics: readonly Metric[]): string {
  const troubles = TROUBLES.filter(
    ({ key }) =>
      !metrics.some((metric) => metric.key === key) && rows.some(({ figures }) => key in figures),
  );
  const columns = [...metrics, ...troubles];
  const heads = columns.map(({ label, unit }) => (unit === '' ? label : `${label}, ${unit}`));
  const lines = rows.map((row) => renderRow(row, columns));
  const table = [
    `| | ${heads.join(' | ')} |`,
    `|---|${columns.map(() => '--:|').join('')}`,
    ...lines,
  ].join('\n');
  return title === '' ? table : `### ${title}\n\n${table}`;
}

/** Columns that a table has only when they have something to show. */
const TROUBLES: readonly Metric[] = [
  { key: 'errors', label: 'errors', unit: '' },
  { key: 'stuck', label: 'callers still waiting long after the end', unit: '' },
  { key: 'overlaps', label: 'overlaps', unit: '' },
];

function renderRow({ failure, figures, label }: Row, columns: readonly Metric[]): string {
  const cells = columns.map(({ key }) => renderFigure(figures[key]));
  const name = failure === null ? label : `${label} – **failed: ${failure.replaceAll('|', '/')}**`;
  return `| ${name} | ${cells.join(' | ')} |`;
}

function renderFigure(figure: Figure | undefined): string {
  if (figure === undefined) return '–';
  const { max, median, min, samples } = figure;
  if (samples.length < 2 || formatNumber(min) === formatNumber(max)) return formatNumber(median);
  return `${formatNumber(median)} (${formatNumber(min)}–${formatNumber(max)})`;
}

function renderCandidates(): string {
  return Object.values(catalogue)
    .map(({ kind, label, note }) => `- **${label}** (${kind}): ${note}.`)
    .join('\n');
}
