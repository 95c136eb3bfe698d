import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';

import { RedisServer } from '../infrastructure/redis-server.js';
import { StaleTokenError, type FencedStore } from './fenced-store.js';
import { MemoryStore } from './memory-store.js';
import { RedisStore } from './redis-store.js';

const OLD = 1_700_000_000_000_001;
const NEW = 1_700_000_000_000_002;

describe('MemoryStore', () => {
  keepsTheContract(() => new MemoryStore());
});

describe('RedisStore', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await RedisServer.start();
  });

  afterAll(async () => {
    await server.kill();
  });

  // Each test has a database of its own, so that none has to clean up.
  let database = 0;
  keepsTheContract(() => new RedisStore(`${server.url}/${(database += 1)}`));
});

function keepsTheContract(create: () => FencedStore): void {
  let store: FencedStore;

  beforeEach(() => {
    store = create();
  });

  afterEach(async () => {
    await store.close();
  });

  it('knows no value at first', async () => {
    expect(await store.peek('sku:a')).toBeNull();
    expect(await store.read('sku:a', NEW)).toBeNull();
    expect(await store.names()).toEqual([]);
  });

  it('reads what was written, also a zero', async () => {
    await store.write({ 'sku:a': 0, 'sku:b': 5 }, NEW);

    expect(await store.read('sku:a', NEW)).toBe(0);
    expect(await store.peek('sku:b')).toBe(5);
    expect(await store.names()).toEqual(['sku:a', 'sku:b']);
  });

  it('lets one holder write as often as it likes', async () => {
    await store.write({ 'sku:a': 1 }, NEW);
    await store.write({ 'sku:a': 2 }, NEW);

    expect(await store.peek('sku:a')).toBe(2);
  });

  it('refuses a write by an older holder once a newer one has written', async () => {
    await store.write({ 'sku:a': 1 }, NEW);

    await expect(store.write({ 'sku:a': 2 }, OLD)).rejects.toThrow(StaleTokenError);

    expect(await store.peek('sku:a')).toBe(1);
  });

  it('refuses a write by an older holder once a newer one has only read', async () => {
    await store.write({ 'sku:a': 1 }, OLD);
    await store.read('sku:a', NEW);

    await expect(store.write({ 'sku:a': 2 }, OLD)).rejects.toThrow(StaleTokenError);

    expect(await store.peek('sku:a')).toBe(1);
  });

  it('refuses a read by an older holder', async () => {
    await store.read('sku:a', NEW);

    await expect(store.read('sku:a', OLD)).rejects.toThrow(StaleTokenError);
  });

  it('writes nothing when one of several names has seen a newer token', async () => {
    await store.write({ 'account:a': 1, 'account:b': 2 }, OLD);
    await store.read('account:b', NEW);

    await expect(store.write({ 'account:a': 10, 'account:b': 20 }, OLD)).rejects.toThrow(
      StaleTokenError,
    );

    expect(await store.peek('account:a')).toBe(1);
    expect(await store.peek('account:b')).toBe(2);
  });

  it('keeps the tokens of names apart', async () => {
    await store.read('sku:a', NEW);

    await store.write({ 'sku:b': 1 }, OLD);

    expect(await store.peek('sku:b')).toBe(1);
  });

  it('seeds what is absent and leaves the rest', async () => {
    await store.write({ 'sku:a': 1 }, NEW);

    await store.seed({ 'sku:a': 100, 'sku:b': 100 });

    expect(await store.peek('sku:a')).toBe(1);
    expect(await store.peek('sku:b')).toBe(100);
  });

  it('overwrites without asking for a token', async () => {
    await store.write({ 'sku:a': 1 }, NEW);

    await store.overwrite('sku:a', 7);

    expect(await store.peek('sku:a')).toBe(7);
  });
}
