import { startRedisServers, type RedisServer } from '../../test/support/redis-servers.js';
import { startDelayProxy, type DelayProxy } from '../processes/delay-proxy.js';

/** Runs `work` over `count` new servers on loopback, then ends them. */
export async function withServers<T>(
  count: number,
  work: (servers: readonly RedisServer[], urls: readonly string[]) => Promise<T>,
): Promise<T> {
  const servers = await startRedisServers(count);
  try {
    return await work(
      servers,
      servers.map(({ url }) => url),
    );
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Runs `work` over proxies for these servers, which delay nothing yet, then closes them. */
export async function withProxies<T>(
  servers: readonly RedisServer[],
  work: (proxies: readonly DelayProxy[]) => Promise<T>,
): Promise<T> {
  const proxies = await Promise.all(servers.map(({ port }) => startDelayProxy(port)));
  try {
    return await work(proxies);
  } finally {
    await Promise.all(proxies.map((proxy) => proxy.close()));
  }
}
