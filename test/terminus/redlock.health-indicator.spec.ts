import { describe, expect, it } from '@jest/globals';
import { Controller, Get } from '@nestjs/common';
import { HealthCheck, HealthCheckService } from '@nestjs/terminus';
import { MemoryNode, minutes, RedlockModule, RedlockService, seconds } from 'nestjs-locked';
import { RedlockHealthIndicator, type RedlockHealthOptions } from 'nestjs-locked/terminus';

import {
  healthOf,
  LostNode,
  metadata,
  MissetNode,
  NODE_TIMEOUT,
  pass,
  settled,
  startIndicator,
  startInFakeTime,
  startServers,
  urlsOf,
  watchQuestions,
} from './indicator-scene.js';
import { startPlain, startServer } from '../nest/support/applications.js';
import { faultyNodes } from '../nest/support/faulty-nodes.js';
import { rejection } from '../nest/support/events.js';

describe('RedlockHealthIndicator', () => {
  it('is up without blemish while every node votes', async () => {
    const servers = await startServers(3, ['--maxmemory-policy', 'noeviction']);
    const indicator = await startIndicator(urlsOf(servers));

    const health = await healthOf(indicator);

    const sound = {
      state: 'up',
      isVoting: true,
      quarantinedUntil: null,
      findings: [],
      message: '',
    };
    expect(health).toMatchObject({ status: 'up', isDegraded: false, quorum: 2, voting: 3 });
    expect(health.nodes).toEqual(servers.map(({ url }) => ({ name: `${url}/0`, ...sound })));
  });

  it('is degraded while a minority is frozen, and says so within the node timeout', async () => {
    const servers = await startServers(3);
    const indicator = await startIndicator(urlsOf(servers), { ...settled, nodeTimeout: 500 });
    servers[0]?.freeze();

    const startedAt = performance.now();
    const health = await healthOf(indicator);
    const took = performance.now() - startedAt;

    expect(health).toMatchObject({ status: 'up', isDegraded: true, voting: 2 });
    expect(health.nodes[0]).toMatchObject({ state: 'silent', isVoting: false });
    expect(health.nodes[0]?.message).toContain('no answer');
    expect(took).toBeGreaterThanOrEqual(499);
    // Far below the 5 s after which the connection notices the silence by itself.
    expect(took).toBeLessThan(2_000);
  });

  it('is down once a majority is gone', async () => {
    const servers = await startServers(3);
    const indicator = await startIndicator(urlsOf(servers));
    await Promise.all(servers.slice(1).map((server) => server.stop()));

    const health = await healthOf(indicator);

    expect(health).toMatchObject({ status: 'down', isDegraded: false, voting: 1 });
    expect(health.nodes.map(({ isVoting }) => isVoting)).toEqual([true, false, false]);
    expect(health.nodes.map(({ state }) => state)).toEqual(['up', 'down', 'down']);
    expect(health.nodes[1]?.message).not.toBe('');
  });

  it('is down while a majority would refuse to lock, before any lock is asked for', async () => {
    const servers = [...(await startServers(1)), ...(await startServers(2, ['--maxmemory', '1']))];
    const indicator = await startIndicator(urlsOf(servers));

    const health = await healthOf(indicator);

    const full = { state: 'up', isVoting: false, message: expect.stringMatching(/^OOM /) };
    const refusal = { findings: [expect.stringMatching(/^It refuses locks: OOM /)] };
    expect(health).toMatchObject({ status: 'down', voting: 1 });
    expect(health.nodes).toMatchObject([{ isVoting: true }, full, full]);
    expect((await healthOf(indicator)).nodes.slice(1)).toMatchObject([refusal, refusal]);
  });

  it('is down while no fencing token suits the clocks of a majority, as no lock is to be had', async () => {
    const nodes = [0, 2_100, -2_100].map((offset) => new MissetNode(offset));
    const imports = [RedlockModule.forRoot(nodes, settled), ...metadata.imports];
    const app = await startPlain({ ...metadata, imports });

    const health = await healthOf(app.get(RedlockHealthIndicator));

    expect(health).toMatchObject({ status: 'down', voting: 1 });
    expect(health.nodes.map(({ message }) => message)).toEqual([
      '',
      'its clock is 2100 ms ahead of most others: no fencing token suits all of them',
      'its clock is 2100 ms behind most others: no fencing token suits all of them',
    ]);
    const error = await rejection(app.get(RedlockService).tryAcquire('a'));
    expect(error).toMatchObject({ code: 'NO_QUORUM' });
  });

  it('is degraded by one node that is suspended, and down with another that is down', async () => {
    const { indicator, nodes } = await startInFakeTime();
    const suspended = { state: 'suspended', isVoting: false, message: 'no answer in time' };
    const down = { state: 'down', isVoting: false, message: 'the connection is not ready' };

    nodes[0]?.hang();
    const [degraded] = await Promise.all([healthOf(indicator), pass(NODE_TIMEOUT)]);
    nodes[1]?.refuse();
    const [gone] = await Promise.all([healthOf(indicator), pass(NODE_TIMEOUT)]);

    expect(degraded).toMatchObject({ status: 'up', isDegraded: true, quorum: 2, voting: 2 });
    expect(degraded.nodes).toMatchObject([suspended, { state: 'up' }, { state: 'up' }]);
    expect(gone).toMatchObject({ status: 'down', isDegraded: false, quorum: 2, voting: 1 });
    expect(gone.nodes).toMatchObject([suspended, down, { state: 'up' }]);
  });

  it('counts no vote of a node that was lost since it answered', async () => {
    const indicator = await startIndicator([new MemoryNode(), new MemoryNode(), new LostNode()]);

    const health = await healthOf(indicator);

    expect(health).toMatchObject({ status: 'up', isDegraded: true, voting: 2 });
    expect(health.nodes[2]).toMatchObject({ state: 'down', isVoting: false, message: '' });
  });

  it('says after exactly the node timeout that all nodes hang', async () => {
    const { indicator, nodes } = await startInFakeTime();
    for (const node of nodes) node.hang();
    const answers: unknown[] = [];

    void healthOf(indicator).then((health) => answers.push(health));
    await pass(NODE_TIMEOUT - 1);
    const early = answers.length;
    await pass(1);

    expect(early).toBe(0);
    expect(answers).toMatchObject([{ status: 'down', isDegraded: false, voting: 0 }]);
  });

  it('is down while a majority is in quarantine, and says until when', async () => {
    const servers = await startServers(3);
    const ttlMax = minutes(1);
    const indicator = await startIndicator(urlsOf(servers), {
      ...settled,
      quarantine: true,
      ttlMax,
    });

    const health = await healthOf(indicator);

    expect(health).toMatchObject({ status: 'down', voting: 0 });
    for (const { state, isVoting, quarantinedUntil } of health.nodes) {
      expect([state, isVoting]).toEqual(['up', false]);
      const left = Date.parse(quarantinedUntil ?? '') - Date.now();
      expect(left).toBeGreaterThan(ttlMax - seconds(20));
      expect(left).toBeLessThan(ttlMax + seconds(20));
    }
  });

  it('is degraded by what the audit found, and names it', async () => {
    const servers = await startServers(1, ['--maxmemory-policy', 'allkeys-lru']);
    const indicator = await startIndicator(urlsOf(servers));

    const health = await healthOf(indicator);

    expect(health).toMatchObject({ status: 'up', isDegraded: true, voting: 1 });
    expect(health.nodes[0]?.findings.join()).toContain('allkeys-lru');
  });

  it('is down, not degraded, once the application shuts down, whatever its nodes do', async () => {
    const nodes = faultyNodes();
    const imports = [RedlockModule.forRoot(nodes), ...metadata.imports];
    const module = await startPlain({ ...metadata, imports });
    const indicator = module.get(RedlockHealthIndicator);
    await module.close();
    nodes[0]?.refuse();

    const health = await healthOf(indicator);

    expect(health).toMatchObject({ status: 'down', isClosed: true, isDegraded: false, voting: 2 });
  });

  it('asks the lock domain that it is told, about the resource that it is told', async () => {
    const nodes = faultyNodes();
    const imports = [
      RedlockModule.forRoot([new MemoryNode()]),
      RedlockModule.forRoot(nodes, { name: 'billing' }),
      ...metadata.imports,
    ];
    const indicator = (await startPlain({ ...metadata, imports })).get(RedlockHealthIndicator);
    const asked = watchQuestions(nodes);

    const health = await healthOf(indicator, { redlock: 'billing', resource: 'orders:probe' });
    const unknown = await rejection(indicator.isHealthy('locks', { redlock: 'nowhere' }));

    expect(health.nodes.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(asked).toEqual(['orders:probe', 'orders:probe', 'orders:probe']);
    expect(String(unknown)).toContain('nowhere');
  });

  it('asks about a resource of its own where it is told none', async () => {
    const nodes = faultyNodes();
    const indicator = await startIndicator(nodes);
    const asked = watchQuestions(nodes);

    await healthOf(indicator);

    expect(new Set(asked)).toEqual(new Set(['nestjs-locked:health']));
  });

  it.each([
    [
      { redlok: 'billing' },
      'Expected only options of RedlockHealthOptions (redlock, resource), got "redlok"',
    ],
    [null, 'Expected options to be an object, got null'],
  ])('takes options of %j for a mistake', async (options, message) => {
    const indicator = await startIndicator([new MemoryNode()]);

    const error = await rejection(indicator.isHealthy('locks', options as RedlockHealthOptions));

    expect(error).toEqual(new TypeError(message));
  });

  it.each([
    [null, 'null'],
    ['', '""'],
  ])('takes a key of %j for a mistake', async (key, got) => {
    const indicator = await startIndicator([new MemoryNode()]);

    const error = await rejection(indicator.isHealthy(key as never));

    expect(error).toEqual(new TypeError(`Expected key to be a non-empty string, got ${got}`));
  });

  it('makes a readiness endpoint answer 200 or 503', async () => {
    @Controller()
    class ReadinessController {
      constructor(
        private readonly health: HealthCheckService,
        private readonly locks: RedlockHealthIndicator,
      ) {}

      @Get('ready')
      @HealthCheck()
      ready() {
        return this.health.check([() => this.locks.isHealthy()]);
      }
    }
    const servers = await startServers(3);
    const { url } = await startServer(
      { ...metadata, controllers: [ReadinessController] },
      settled,
      urlsOf(servers),
    );

    const before = await fetch(`${url}/ready`);
    await Promise.all(servers.slice(1).map((server) => server.stop()));
    const after = await fetch(`${url}/ready`);

    expect(before.status).toBe(200);
    expect(after.status).toBe(503);
    expect(await after.json()).toMatchObject({ error: { redlock: { status: 'down', voting: 1 } } });
  });
});
