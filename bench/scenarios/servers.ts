import { startRedisServers, type RedisServer } from '../../test/support/redis-servers.js';

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
