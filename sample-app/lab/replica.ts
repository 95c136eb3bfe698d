// A selling process, started by `ReplicaProcess`: an application without HTTP.
import { randomUUID } from 'node:crypto';

import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockLostError, RedlockError, RedlockModule } from 'nestjs-locked';

import { lockOptions } from '../lock-options.js';
import { FencedStore, StaleTokenError } from '../store/fenced-store.js';
import { RedisStore } from '../store/redis-store.js';
import { now } from './clock.js';
import { listenToLocks } from './lock-events.js';
import { LogBook } from './log-book.js';
import { TrafficMeter } from './node-traffic.js';
import { Recent } from './recent.js';
import { SaleCounter, type Turn } from './sale-counter.js';
import type { Visit, VisitOutcome } from './messages.js';
import { NEWS_EVERY, type ReplicaMessage, type SellRequest } from './replica-messages.js';

const {
  REDIS_NODES: nodes = '',
  STORE_URL: storeUrl = '',
  LAB_REPLICA: replica = '1',
} = process.env;

// The channel closes however the application ends: then nothing is left to do here.
process.once('disconnect', () => process.exit());
// The channel may have closed while this file was being loaded, before anybody listened.
if (!process.connected) process.exit();
const tell = (message: ReplicaMessage): void => {
  if (process.connected) process.send?.(message);
};

// If the application does not keep up, the oldest news are dropped, but never an answer.
const visits = new Recent<Visit>(500);
const log = new LogBook(50);
const traffic = new TrafficMeter();
listenToLocks(`replica ${replica}`, (line) => log.add(line));
let isDoomed = false;

@Module({
  imports: [RedlockModule.forRoot(nodes.split(','), lockOptions)],
  providers: [SaleCounter, { provide: FencedStore, useValue: new RedisStore(storeUrl) }],
})
class ReplicaModule {}

const app = await NestFactory.createApplicationContext(ReplicaModule, { logger: false });
const sales = app.get(SaleCounter);

process.on('message', (request: SellRequest) => {
  const { counter } = request;
  void serve(request).then((outcome) => {
    tellNews();
    tell({ type: 'answer', counter, outcome });
  });
});
setInterval(tellNews, NEWS_EVERY);
tell({ type: 'ready' });

async function serve({ counter, section, isLocked, isFatal }: SellRequest): Promise<VisitOutcome> {
  isDoomed ||= isFatal;
  let visit: Visit = {
    id: randomUUID(),
    replica: Number(replica),
    counter,
    cameAt: now(),
    enteredAt: null,
    token: null,
    leftAt: null,
    outcome: null,
  };
  const become = (change: Partial<Visit>): void => {
    visit = { ...visit, ...change };
    visits.set(visit.id, visit);
  };
  become({});
  const turn: Turn = {
    begin: (token) => {
      become({ enteredAt: now(), token });
      if (isDoomed) dieAfter(section / 2);
    },
    end: () => become({ leftAt: now() }),
  };
  const selling = isLocked ? sales.sell(section, turn) : sales.sellUnlocked(section, turn);
  const outcome = await outcomeOf(selling);
  become({ outcome, leftAt: visit.leftAt ?? now() });
  return outcome;
}

// Like an unexpected end of a replica: nothing is released; only the page is told beforehand.
function dieAfter(delay: number): void {
  tellNews();
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), delay);
}

async function outcomeOf(selling: Promise<boolean>): Promise<VisitOutcome> {
  try {
    return (await selling) ? 'sold' : 'sold out';
  } catch (error) {
    // The lock was lost first, but the store took the write: its token was still the highest.
    if (error instanceof LockLostError && error.result === true) return 'sold';
    if (error instanceof LockLostError || error instanceof StaleTokenError) return 'lock lost';
    return error instanceof RedlockError ? 'no lock' : 'failed';
  }
}

function tellNews(): void {
  const news = { visits: visits.drain(), log: log.drain(), traffic: traffic.drain() };
  if (Object.values(news).some(({ length }) => length > 0)) tell({ type: 'news', ...news });
}
