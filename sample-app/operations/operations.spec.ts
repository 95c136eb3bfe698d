// The endpoints of a replica, and whether the files beside them match what it really exposes.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';
import { MemoryNode, RedlockService, type LockNode } from 'nestjs-locked';
import { parse } from 'yaml';

import { startSampleApp } from '../../test/support/sample-app.js';
import { MemoryStore } from '../store/memory-store.js';

const folder = import.meta.dirname;

async function startApp(nodes: readonly LockNode[] = [new MemoryNode()]) {
  const store = new MemoryStore();
  await store.seed({ 'sku:apple': 100 });
  const { app, url } = await startSampleApp({ nodes, store, isLocked: true });
  return { redlock: app.get(RedlockService), url };
}

/** A node that votes, but does not answer inspections. */
function deafNode(): LockNode {
  const node = new MemoryNode();
  node.inspect = () => undefined;
  return node;
}

describe('GET /ready', () => {
  it('answers 200 with each node while locks can be had', async () => {
    const { url } = await startApp();

    const answer = await fetch(`${url}/ready`);

    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({
      info: { locks: { status: 'up', voting: 1, nodes: [{ isVoting: true }] } },
    });
  });

  it('answers 503 when no quorum of nodes answers', async () => {
    const { url } = await startApp([deafNode()]);

    const answer = await fetch(`${url}/ready`);

    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ error: { locks: { status: 'down', voting: 0 } } });
  });
});

describe('GET /metrics', () => {
  it('counts the locks that requests took, by class and without their names', async () => {
    const { url } = await startApp();

    await fetch(`${url}/inventory/apple/reserve`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"quantity": 1}',
    });
    const text = await (await fetch(`${url}/metrics`)).text();

    expect(text).toMatch(
      /^nestjs_locked_acquisitions_total\{.*nestjs_locked_resource_class="sku".*\} 1\b/m,
    );
    expect(text).not.toContain('apple');
  });

  it('exposes every metric and every label of the dashboard', async () => {
    const node = new MemoryNode();
    const { redlock, url } = await startApp([node]);
    const lost = redlock.using('sku:apple', { ttl: 1_000, watchdog: false }, async (lock) => {
      await lock.extend();
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    });
    await expect(lost).rejects.toMatchObject({ code: 'LOCK_LOST' });

    const exposed = await (await fetch(`${url}/metrics`)).text();
    const dashboard = readFileSync(join(folder, 'grafana/locks.json'), 'utf8');
    const expressions = [...dashboard.matchAll(/"expr": (".*")/g)].map(
      ([, text]) => JSON.parse(text ?? '') as string,
    );
    const names = new Set(expressions.flatMap((text) => text.match(/nestjs_locked_\w+/g) ?? []));

    expect(names.size).toBeGreaterThan(15);
    for (const name of names) expect(exposed).toMatch(new RegExp(`\\b${name}[{=]`));
  });
});

describe('docker-compose.yml', () => {
  interface Compose {
    readonly services: Record<
      string,
      {
        readonly image: string;
        readonly environment?: Record<string, string | number>;
        readonly volumes?: readonly string[];
        readonly depends_on?: Record<string, unknown> | readonly string[];
      }
    >;
  }

  const load = (file: string): unknown => parse(readFileSync(join(folder, file), 'utf8'));
  const { services } = load('docker-compose.yml') as Compose;

  it('gives the app five independent lock nodes and a store, all of them services', () => {
    const { REDIS_NODES, STORE_URL } = services.app?.environment ?? {};
    const nodes = String(REDIS_NODES).split(',');
    const hosts = [...nodes, String(STORE_URL)].map((url) => new URL(url).hostname);

    expect(new Set(nodes).size).toBe(5);
    expect(new Set(hosts).size).toBe(6);
    for (const host of hosts) expect(services[host]?.image).toMatch(/^valkey\//);
  });

  it('names images by version, services that exist and files that are there', () => {
    const known = Object.keys(services);

    for (const { image, volumes = [], depends_on: needed = [] } of Object.values(services)) {
      expect(image).toMatch(/^[\w/-]+:v?\d+/);
      const names = Array.isArray(needed) ? needed : Object.keys(needed);
      expect(known).toEqual(expect.arrayContaining(names as string[]));
      const sources = volumes.map((volume) => volume.split(':')[0] ?? '');
      expect(sources.filter((source) => !existsSync(join(folder, source)))).toEqual([]);
    }
  });

  it('has Prometheus scrape the app where it listens, and Grafana ask Prometheus', () => {
    interface Scrape {
      readonly metrics_path: string;
      readonly dns_sd_configs: readonly {
        readonly names: readonly string[];
        readonly port: number;
      }[];
    }
    interface Datasource {
      readonly uid: string;
      readonly url: string;
      readonly jsonData: { readonly timeInterval: string };
    }
    const { global, scrape_configs: scrapes } = load('prometheus.yml') as {
      global: { readonly scrape_interval: string };
      scrape_configs: Scrape[];
    };
    const { datasources } = load('grafana/datasources.yml') as { datasources: Datasource[] };
    const dashboard = readFileSync(join(folder, 'grafana/locks.json'), 'utf8');
    const asked = [...dashboard.matchAll(/"uid": "(\w+)"/g)].map(([, uid]) => uid);

    const [scrape] = scrapes;
    expect(scrape?.metrics_path).toBe('/metrics');
    expect(scrape?.dns_sd_configs.map(({ names, port }) => ({ names, port }))).toEqual([
      { names: ['app'], port: services.app?.environment?.PORT },
    ]);
    expect(datasources.map(({ url }) => new URL(url).hostname)).toEqual(['prometheus']);
    expect(datasources.map(({ jsonData }) => jsonData.timeInterval)).toEqual([
      global.scrape_interval,
    ]);
    expect(asked.length).toBeGreaterThan(9);
    expect(new Set(asked)).toEqual(new Set(datasources.map(({ uid }) => uid)));
  });
});
