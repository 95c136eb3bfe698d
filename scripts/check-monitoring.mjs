// Checks the sample app's monitoring, except Grafana: a Prometheus scrapes the app while it sells,
// waits and loses a lock, and then answers each expression of the dashboard.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { parse } from 'yaml';

import { root, run } from './command.mjs';
import { startSampleApp } from './sample-app.mjs';

const SCRAPE_INTERVAL = '1s';
/** Grafana's range is four scrapes or more; this many allow for a busy machine. */
const RATE_INTERVAL = '15s';
const WAIT_MAX = 60_000;
const ANSWER_MAX = 30_000;
/** The most that a panel of a unit may show: milliseconds taken for seconds would be more. */
const MAXIMA = { s: 60, ops: 10_000, none: 1_000 };

const operations = join(root, 'sample-app/operations');
const read = (file) => readFileSync(join(operations, file), 'utf8');

needPrograms(['prometheus'], ['promtool'], ['redis-server', 'valkey-server']);
await run('promtool', ['check', 'config', join(operations, 'prometheus.yml')]);
const app = await startSampleApp();
const prometheus = await startPrometheus(new URL(app.url).host);
const startedAt = Date.now();
await underLoad(loseLock);
const units = await metricUnits();
const { panels } = JSON.parse(read('grafana/locks.json'));
const failures = [];
for (const panel of panels) {
  console.log(panel.title);
  for (const target of panel.targets) {
    for (const failure of await check(panel, target)) {
      failures.push(`${panel.title}: ${failure}\n  ${target.expr}`);
    }
  }
}
const expressions = panels.flatMap(({ targets }) => targets).length;
console.log(`${panels.length} panels, ${expressions} expressions, ${failures.length} failures`);
for (const failure of failures) console.error(failure);
process.exit(failures.length === 0 ? 0 : 1);

/** Ends this process unless one of the alternatives is installed. */
function needPrograms(...needed) {
  const isInstalled = (program) => spawnSync(program, ['--version']).error === undefined;
  const missing = needed.filter((alternatives) => !alternatives.some(isInstalled));
  if (missing.length === 0) return;
  const names = missing.map((alternatives) => alternatives.join(' or ')).join(', ');
  console.error(`Not found on PATH: ${names}. On Debian, install prometheus and redis-server.`);
  process.exit(1);
}

/** Resolves to its address. It ends with this process, however that ends. */
async function startPrometheus(target) {
  const address = `127.0.0.1:${await freePort()}`;
  const cwd = mkdtempSync(join(tmpdir(), 'check-monitoring-'));
  writeFileSync(join(cwd, 'prometheus.yml'), configuration(target));
  const files = ['--config.file=prometheus.yml', '--storage.tsdb.path=data'];
  const server = spawn('prometheus', [...files, `--web.listen-address=${address}`], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  process.once('exit', () => {
    server.kill('SIGKILL');
    rmSync(cwd, { recursive: true, maxRetries: 10 });
  });
  const said = [];
  server.stderr.on('data', (data) => said.push(data));
  await until('Prometheus to be ready', async () => {
    if (server.exitCode !== null) throw new Error(`Prometheus ended:\n${said.join('')}`);
    return (await fetch(`http://${address}/-/ready`).catch(() => undefined))?.ok;
  });
  return `http://${address}`;
}

/** The project's configuration, except the target, whose name exists only in Docker. */
function configuration(target) {
  const { global, scrape_configs: scrapes } = parse(read('prometheus.yml'));
  const scrapesOfTarget = scrapes.map((scrape) => ({
    ...scrape,
    dns_sd_configs: [],
    static_configs: [{ targets: [target] }],
  }));
  const often = { ...global, scrape_interval: SCRAPE_INTERVAL };
  // JSON is YAML.
  return JSON.stringify({ global: often, scrape_configs: scrapesOfTarget });
}

// When Prometheus may take any port, it does not say which it took.
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

/** Sends buyers, two who want the same job, and transfers, until `work` is done. */
async function underLoad(work) {
  let isOver = false;
  const again = async (path, body) => {
    while (!isOver) {
      await request('POST', path, body);
      await sleep(20);
    }
  };
  await request('PUT', '/inventory/apple', { stock: 1_000_000 });
  const load = Promise.all([
    ...Array.from({ length: 8 }, () => again('/inventory/apple/reserve', { quantity: 1 })),
    ...Array.from({ length: 2 }, () => again('/slow/import?seconds=2')),
    again('/accounts/transfer', { from: 'alice', to: 'bob', amount: 1 }),
  ]);
  await Promise.race([work(), load]);
  isOver = true;
  await load;
}

/** Freezes three of five nodes under a long job, and thaws them when its lock is lost. */
async function loseLock() {
  const losses = 'nestjs_locked_losses_total{nestjs_locked_resource_class="long-job"}';
  const treat = async (action) => {
    for (const node of [1, 2, 3]) await request('POST', `/lab/nodes/${node}/${action}`);
  };
  await request('POST', '/lab/job/start');
  const holds = 'nestjs_locked_hold_duration_count{nestjs_locked_resource_class="slow"}';
  await seen(`rate(${holds}[${RATE_INTERVAL}]) > 0`);
  await seen(`${losses} == 0`);
  await treat('freeze');
  await seen(`${losses} > 0`);
  await treat('thaw');
  await seen('sum(nestjs_locked_node_status{nestjs_locked_node_state="up"}) == 5');
  await request('POST', '/lab/job/stop');
}

async function request(method, path, body) {
  const { status } = await fetch(`${app.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWER_MAX),
  });
  // Sold out, too poor, taken, lost, no quorum: all part of the load.
  const isExpected = (status >= 200 && status < 300) || [409, 423, 500, 503].includes(status);
  if (!isExpected) throw new Error(`${method} ${path} was answered ${status}.`);
}

/** Waits until an expression has a result. */
function seen(query) {
  return until(query, async () => (await ask('query', { query })).length > 0);
}

async function until(what, isSo) {
  for (const end = Date.now() + WAIT_MAX; Date.now() < end; await sleep(200)) {
    if (await isSo()) return;
  }
  throw new Error(`Waited in vain for ${WAIT_MAX} ms: ${what}`);
}

/** @throws Error with Prometheus' objection to the query */
async function ask(api, parameters) {
  const url = new URL(`/api/v1/${api}`, prometheus);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MAX) });
  const { data, error } = await answer.json();
  if (error !== undefined) throw new Error(error);
  return data.result;
}

/** Reads the units, by metric name. Prometheus itself reads no unit in this format. */
async function metricUnits() {
  const text = await (await fetch(`${app.url}/metrics`)).text();
  return new Map([...text.matchAll(/^# UNIT (\w+) (.+)$/gm)].map(([, name, unit]) => [name, unit]));
}

/** Reports what a panel has shown the whole time, and resolves to what is wrong with it. */
async function check(panel, target) {
  const { expr, legendFormat } = target;
  const query = expr.replaceAll('$__rate_interval', RATE_INTERVAL);
  const time = { start: startedAt / 1_000, end: Date.now() / 1_000, step: 1 };
  let results;
  try {
    results = await ask('query_range', { query, ...time });
  } catch (error) {
    return [`was refused: ${error.message}`];
  }
  const series = results.map((result) => toSeries(result, legendFormat));
  const unit = unitOf(panel, legendFormat);
  // Nodes that are as they should be have no findings.
  const mayStayZero = expr.includes('_findings');
  const failures = judge(series, { maximum: MAXIMA[unit], mayStayZero });
  const expected = unitOfResult(expr);
  if (results.length > 0 && unit !== expected)
    failures.push(`has the unit ${unit} for values in ${expected}`);
  return failures;
}

function unitOf({ fieldConfig: { defaults, overrides } }, legend) {
  const own = overrides.find(({ matcher }) => matcher.options === legend)?.properties ?? [];
  return own.find(({ id }) => id === 'unit')?.value ?? defaults.unit;
}

/** In Grafana's terms: a quantile has the unit of its metric, a rate is operations per second. */
function unitOfResult(expression) {
  const [, metric] = /\b(\w+)_bucket\b/.exec(expression) ?? [];
  if (metric !== undefined) return units.get(metric) ?? 'no unit';
  return /\brate\(/.test(expression) ? 'ops' : 'none';
}

function toSeries({ metric, values }, legendFormat) {
  const labelsMissing = [];
  const legend = legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_all, label) => {
    if (metric[label] === undefined) labelsMissing.push(label);
    return metric[label];
  });
  // A quantile of nothing is NaN.
  const numbers = values.map(([, value]) => Number(value)).filter(Number.isFinite);
  return { legend, labelsMissing, least: Math.min(...numbers), most: Math.max(...numbers) };
}

function judge(series, { maximum, mayStayZero }) {
  const withData = series.filter(({ least, most }) => least <= most);
  if (withData.length === 0) return ['gave no data'];
  const failures = [];
  const missing = new Set(withData.flatMap(({ labelsMissing }) => labelsMissing));
  for (const label of missing) failures.push(`has no label ${label} for its legend`);
  for (const { legend, least, most } of withData) {
    console.log(`  ${legend}: ${Number(least.toPrecision(3))} to ${Number(most.toPrecision(3))}`);
    if (least < 0 || most > maximum) failures.push(`gave ${least} to ${most} for ${legend}`);
  }
  const isZero = withData.every(({ most }) => most === 0);
  if (isZero && !mayStayZero) failures.push('was never above 0');
  return failures;
}
