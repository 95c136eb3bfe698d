// Asks the nodes instead of trusting what was last heard of them: a node that has just frozen
// counts as up until its silence is noticed.
import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';

import { systemEnvironment, toIsoTime } from '../core/environment.js';
import type { NodeResourceState } from '../core/inspection.js';
import type { NodeStatus } from '../core/lock-node.js';
import { checkNames, checkObject, checkText } from '../core/option-checks.js';
import type { RedlockStatus } from '../core/redlock.js';
import { RedlockService } from '../nest/redlock.service.js';
import { getRedlockToken } from '../nest/redlock.tokens.js';

/** Options of {@link RedlockHealthIndicator.isHealthy}. */
export interface RedlockHealthOptions {
  /** Name of the lock domain. @default the one without a name */
  readonly redlock?: string | undefined;
  /**
   * The resource about which the nodes are asked whether it could be locked. It is not locked, but
   * the Redis user needs the same rights to its key as to that of a lock.
   * @default 'nestjs-locked:health'
   */
  readonly resource?: string | undefined;
}

/** How one node is. */
export interface RedlockNodeHealth {
  readonly name: string;
  /** `silent`: believed to be up, but did not answer in time or not as expected. */
  readonly state: NodeStatus['state'] | 'silent';
  /** Whether its votes count now: it answers, would lock, and is not in quarantine. */
  readonly isVoting: boolean;
  /** When its votes will count again, ISO 8601 in UTC; null when it is not in quarantine. */
  readonly quarantinedUntil: string | null;
  /** What is wrong with it, one sentence each. */
  readonly findings: readonly string[];
  /** Why it gave no answer or would not lock; empty if it answered and would lock. */
  readonly message: string;
}

/** The details of the result. */
export interface RedlockHealth {
  /** Whether locks can be acquired although not all is as it should be: see the nodes. */
  readonly isDegraded: boolean;
  /** Whether the application is shutting down and grants no more locks. */
  readonly isClosed: boolean;
  /** How many nodes make a majority. */
  readonly quorum: number;
  /** How many nodes vote now; locks can be acquired while these are at least `quorum`. */
  readonly voting: number;
  readonly nodes: readonly RedlockNodeHealth[];
}

/**
 * Tells `@nestjs/terminus` whether locks can be acquired: down when no quorum of nodes votes, or
 * when the application is shutting down. Add it to the providers of the module that imports
 * `TerminusModule`. Meant for readiness: restarting the application heals no node.
 * @example
 * ```ts
 * @Get('ready')
 * @HealthCheck()
 * ready() {
 *   return this.health.check([() => this.locks.isHealthy('locks')]);
 * }
 * ```
 */
@Injectable()
export class RedlockHealthIndicator {
  readonly #indicators: HealthIndicatorService;
  readonly #moduleRef: ModuleRef;

  /** Called by Nest, in a module that imports `TerminusModule`. */
  constructor(indicators: HealthIndicatorService, moduleRef: ModuleRef) {
    this.#indicators = indicators;
    this.#moduleRef = moduleRef;
  }

  /**
   * Asks all nodes once. Resolves after at most one node timeout of the default ttl, and never
   * rejects because of a node. The result is up or down under `key`, by default `redlock`, with
   * {@link RedlockHealth} as its details.
   * @throws Error of Nest if there is no such lock domain.
   * @throws TypeError, RangeError for bad options, or a bad key or name of a domain or resource.
   */
  async isHealthy<const Key extends string = 'redlock'>(
    key: Key = 'redlock' as Key,
    options: RedlockHealthOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    checkText('key', key);
    checkObject('options', options);
    // With a misspelt one it would tell how another lock domain is.
    checkNames('only options of RedlockHealthOptions', options, HEALTH_OPTIONS);
    const { redlock, resource = 'nestjs-locked:health' } = options;
    const token = getRedlockToken(redlock);
    const service = this.#moduleRef.get<RedlockService>(token, { strict: false });
    const answers = await service.inspect(resource);
    const health = judge(await service.status(), answers.nodes);
    const indicator = this.#indicators.check(key);
    const isUp = !health.isClosed && health.voting >= health.quorum;
    return isUp ? indicator.up({ ...health }) : indicator.down({ ...health });
  }
}

const HEALTH_OPTIONS: Readonly<Record<keyof RedlockHealthOptions, true>> = {
  redlock: true,
  resource: true,
};

// Status and answers are of the same nodes in the same order.
function judge(status: RedlockStatus, answers: readonly NodeResourceState[]): RedlockHealth {
  const { isClosed, quorum } = status;
  const nodes = status.nodes.map((node, index) => judgeNode(node, answers[index]));
  const voting = nodes.filter(({ isVoting }) => isVoting).length;
  const isFlawless = nodes.every(({ isVoting, findings }) => isVoting && findings.length === 0);
  const isDegraded = !isClosed && voting >= quorum && !isFlawless;
  return { isDegraded, isClosed, quorum, voting, nodes };
}

function judgeNode(status: NodeStatus, answer: NodeResourceState | undefined): RedlockNodeHealth {
  const { name, findings, quarantineRemaining } = status;
  const hasAnswered = answer !== undefined && answer.state !== 'unknown';
  const state = status.state === 'up' && !hasAnswered ? 'silent' : status.state;
  return {
    name,
    state,
    isVoting: state === 'up' && quarantineRemaining === 0 && answer?.message === '',
    quarantinedUntil:
      quarantineRemaining === 0
        ? null
        : toIsoTime(systemEnvironment.wallClock() + quarantineRemaining),
    findings,
    message: answer?.message ?? '',
  };
}
