// Health indicators of applications, over nodes that are ill in many ways.
import { jest } from '@jest/globals';
import { TerminusModule } from '@nestjs/terminus';
import {
  MemoryNode,
  RedlockModule,
  type LockNode,
  type NodeInput,
  type NodeStatus,
  type RedlockModuleOptions,
} from 'nestjs-locked';
import {
  RedlockHealthIndicator,
  type RedlockHealth,
  type RedlockHealthOptions,
} from 'nestjs-locked/terminus';
import { fakeTimersEnvironment } from 'nestjs-locked/testing';

import { afterTest } from '../support/after-test.js';
import { startPlain } from '../nest/support/applications.js';
import { faultyNodes } from '../nest/support/faulty-nodes.js';
import { startRedisServers, type RedisServer } from '../support/redis-servers.js';

export const metadata = { imports: [TerminusModule], providers: [RedlockHealthIndicator] };

/** Brand-new servers would be in quarantine; the node timeout is one for a machine that is busy. */
export const settled: RedlockModuleOptions = { quarantine: false, nodeTimeout: 2_000 };

export async function startServers(
  count: number,
  args: readonly string[] = [],
): Promise<RedisServer[]> {
  const servers = await startRedisServers(count, { args });
  for (const server of servers) afterTest(() => server.stop());
  return servers;
}

export async function startIndicator(
  nodes: readonly NodeInput[],
  options: RedlockModuleOptions = settled,
): Promise<RedlockHealthIndicator> {
  const imports = [RedlockModule.forRoot(nodes, options), ...metadata.imports];
  return (await startPlain({ ...metadata, imports })).get(RedlockHealthIndicator);
}

export const NODE_TIMEOUT = 200;

/** Nodes that fail on command; only {@link pass} lets time pass. */
export async function startInFakeTime() {
  // What promises and Nest itself go by stays real.
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
  afterTest(() => jest.useRealTimers());
  const nodes = faultyNodes();
  const environment = fakeTimersEnvironment();
  const indicator = await startIndicator(nodes, { nodeTimeout: NODE_TIMEOUT, environment });
  return { indicator, nodes };
}

export function pass(duration: number): Promise<void> {
  return jest.advanceTimersByTimeAsync(duration);
}

export async function healthOf(
  indicator: RedlockHealthIndicator,
  options?: RedlockHealthOptions,
): Promise<{ status: string } & RedlockHealth> {
  const { locks } = await indicator.isHealthy('locks', options);
  return locks as unknown as { status: string } & RedlockHealth;
}

export function urlsOf(servers: readonly RedisServer[]): string[] {
  return servers.map(({ url }) => url);
}

/** A node whose clock is `offset` ms off. */
export class MissetNode extends MemoryNode {
  constructor(readonly offset: number) {
    const wallClock = (): number => Date.now() + offset;
    super({ environment: { ...fakeTimersEnvironment(), wallClock } });
  }

  override status(): NodeStatus {
    return { ...super.status(), clockOffset: this.offset };
  }
}

/** A node that is down from when it has answered. */
export class LostNode extends MemoryNode {
  #isLost = false;

  override inspect(...question: Parameters<MemoryNode['inspect']>): void {
    super.inspect(...question);
    this.#isLost = true;
  }

  override status(): NodeStatus {
    const status = super.status();
    return this.#isLost ? { ...status, state: 'down' } : status;
  }
}

/** The resources that the nodes are asked about from now on. */
export function watchQuestions(nodes: readonly LockNode[]): string[] {
  const asked: string[] = [];
  for (const node of nodes) {
    const inspect = node.inspect.bind(node);
    node.inspect = (world, resource, onAnswer) => {
      asked.push(resource);
      inspect(world, resource, onAnswer);
    };
  }
  return asked;
}
