// What names a server: a URL, ioredis options, or an ioredis client of the application.
import { Redis, type RedisOptions } from 'ioredis';

import { checkNumber, wrongType } from '../core/option-checks.js';
import { DELAY_MAX } from '../core/options.js';
import type { Milliseconds } from '../core/units.js';
import { sharingLookup, type Route } from './redis-connector.js';

/** The options of ioredis. Those that could send a command twice or late are overruled. */
export type { RedisOptions };

/** The options of ioredis that name a server, or change how it is reached. */
type ServerOptions = Pick<
  RedisOptions,
  | ('host' | 'port' | 'path' | 'db' | 'keyPrefix' | 'sentinels' | 'name')
  | ('tls' | 'sentinelTLS' | 'enableTLSForSentinelMode' | 'connectTimeout' | 'keepAlive')
>;

/**
 * An ioredis client, of any copy of ioredis 5 or 6: recognised by its shape. Only what is used of
 * it, because to the compiler the classes of another copy are not those of ours.
 */
export interface RedisClient {
  readonly options: ServerOptions;
  readonly isCluster?: boolean;
  duplicate(override?: ServerOptions): object;
  call(command: string): Promise<unknown>;
}

/** Where a node's server is, and how to connect to it. */
export interface RedisTarget {
  /** `redis://host:port/db`, without credentials. */
  readonly name: string;
  /** The same for two entries that name one server: another database is not another server. */
  readonly identity: string;
  /** Whether it goes over TLS and whoever answers is believed. */
  readonly isUnverified: boolean;
  /** Makes a client that connects once, and never again. */
  connect(): Redis;
}

/**
 * Reads a `redis://` or `rediss://` URL: user, password, host, port, database, and `family`.
 * @throws TypeError that does not repeat the URL, as it may hold a password.
 */
export function targetOfUrl(url: string, keyPrefix: string, origin: string): RedisTarget {
  return targetOfOptions(optionsOfUrl(url, origin), keyPrefix, origin);
}

/**
 * Takes ioredis options. Those that could send a command twice or late are overruled.
 * @throws TypeError where their `keyPrefix` differs from ours, `db` or `port` is not a number, they
 *   ask for TLS and ioredis would not speak it, have `sentinels` and no `name`, or a host or path
 *   is not a string, or is a URL, which may hold a password; TypeError, RangeError for a bad
 *   `connectTimeout`.
 */
export function targetOfOptions(
  options: RedisOptions,
  keyPrefix: string,
  origin: string,
): RedisTarget {
  const connect: Connect = (overrides) =>
    new Redis({ connectionName: 'nestjs-locked', ...options, ...overrides });
  return targetOf(options, keyPrefix, origin, connect);
}

/**
 * Takes the address and the options of an application's client, not its connection, which may
 * queue and repeat commands. The client is left alone.
 * @throws TypeError as {@link targetOfOptions}.
 */
export function targetOfClient(
  client: RedisClient,
  keyPrefix: string,
  origin: string,
): RedisTarget {
  const connect: Connect = (overrides) => client.duplicate(overrides) as Redis;
  return targetOf(client.options, keyPrefix, origin, connect);
}

/** Makes a client by the application's options and ours, which overrule them. */
type Connect = (overrides: ReturnType<ReturnType<typeof overridesOf>>) => Redis;

function targetOf(
  options: ServerOptions & Route,
  keyPrefix: string,
  origin: string,
  connect: Connect,
): RedisTarget {
  checkOptions(options, keyPrefix, origin);
  const overrides = overridesOf(options);
  return {
    ...addressOf(options),
    get isUnverified() {
      return isUnverified(options);
    },
    connect: () => connect(overrides()),
  };
}

/**
 * A command that its caller has given up must not run later: nothing is queued, repeated or
 * carried over to another connection. One client is one connection; reconnecting is ours.
 */
const lockConnection = {
  lazyConnect: false,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // 0: what is outstanding fails with its connection. null would keep it for the next.
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  // Else a Sentinel that hangs keeps its socket, and the process, for ever, and no other is asked.
  sentinelCommandTimeout: 1_000,
  reconnectOnError: null,
  failoverDetector: false,
  // Against a hung server ioredis' own check never ends; ours has a limit.
  enableReadyCheck: false,
  // A timed-out command still runs when the server resumes: the deadline is the core's.
  commandTimeout: undefined,
  // So is when a connection is silent for too long: a process that was blocked has not listened.
  socketTimeout: undefined,
  enableAutoPipelining: false,
  autoResubscribe: false,
  monitor: false,
  // Each connection would prepare them first, and end where the server does not know them.
  himportFieldsets: undefined,
  readOnly: false,
  stringNumbers: false,
  // So that replies are alike with ioredis 5 and 6.
  protocol: 2,
  replyMapping: 'legacy',
  // Ours is in the keys already.
  keyPrefix: '',
} as const satisfies RedisOptions;

/** What is overruled of `options`, asked for anew with each connection. */
function overridesOf(options: ServerOptions & Route) {
  const { keepAlive: asked = 0, sentinels } = options;
  // 0, the default of ioredis 5, means the system's: mostly two hours. Long before, a NAT or a
  // balancer has forgotten idle connections, and the next call would find all nodes silent.
  const keepAlive = asked > 0 ? asked : KEEP_ALIVE;
  const sharing = sharingLookup(options);
  const overrides = () => ({ ...lockConnection, keepAlive, ...sharing() });
  if (!sentinels) return overrides;
  // Each connection asks another Sentinel first: it may have to end, by the stallTimeout, before
  // ioredis has given up one that hangs.
  let next = sentinels;
  return () => {
    const rotated = { ...overrides(), sentinels: next };
    next = [...next.slice(1), ...next.slice(0, 1)];
    return rotated;
  };
}

function optionsOfUrl(text: string, origin: string): RedisOptions {
  const scheme = /^\s*([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== 'redis' && scheme !== 'rediss') {
    const found = scheme === undefined ? 'no scheme' : `"${scheme}://"`;
    throw new TypeError(`Expected ${origin} to begin with "redis://" or "rediss://", got ${found}`);
  }
  const url = URL.canParse(text) ? new URL(text) : null;
  const database = /^\/?(\d*)$/.exec(url?.pathname ?? '')?.[1];
  const settings = /^(?:\?family=([046]))?$/.exec(url?.search ?? '');
  // Of a password with a #, the part behind it would be dropped, and the rest taken for a host.
  if (url === null || database === undefined || settings === null || url.hash !== '') {
    throw new TypeError(
      `Expected ${origin} to be ${scheme}://[user:password@]host[:port][/database], ` +
        'percent-encoded, with further settings in an options object',
    );
  }
  const [, family] = settings;
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || DEFAULT_HOST,
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    db: Number(database),
    ...(url.username === '' ? {} : { username: decoded(url.username, origin) }),
    ...(url.password === '' ? {} : { password: decoded(url.password, origin) }),
    ...(family === undefined ? {} : { family: Number(family) }),
    ...(scheme === 'rediss' ? { tls: {} } : {}),
  };
}

function decoded(part: string, origin: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Not the cause: it might name the password.
    throw new TypeError(`Expected user and password of ${origin} to be percent-encoded`);
  }
}

function checkOptions(options: ServerOptions, keyPrefix: string, origin: string): void {
  checkKeyPrefix(options, keyPrefix, origin);
  checkNumbers(options, origin);
  checkSentinels(options, origin);
  checkAddresses(options, origin);
}

// Else two prefixes would be put before the keys, or one silently dropped: both make another world.
function checkKeyPrefix(options: ServerOptions, keyPrefix: string, origin: string): void {
  const own = options.keyPrefix ?? '';
  if (own === '' || own === keyPrefix) return;
  throw new TypeError(
    `Expected the keyPrefix of ${origin} to be empty or the same as the option keyPrefix ` +
      `(${JSON.stringify(keyPrefix)}), got ${JSON.stringify(own)}; ` +
      'name the prefix of the locks in the option keyPrefix',
  );
}

// ioredis makes NaN of what is not a number, such as a variable that is not set: it goes on with
// database 0, and rejects a promise that nobody has. For a timeout it throws where nobody catches.
function checkNumbers({ connectTimeout, ...options }: ServerOptions, origin: string): void {
  checkNumber(`${origin}.connectTimeout`, connectTimeout ?? 0, 0, DELAY_MAX);
  for (const name of ['db', 'port'] as const) {
    const value = options[name] ?? 0;
    if (/^\d+$/.test(String(value))) continue;
    throw wrongType(`${origin}.${name}`, 'a whole number', value);
  }
}

// Addresses stand in the node's name, and with it in the status, errors and logs.
function checkAddresses({ host, path, sentinels }: ServerOptions, origin: string): void {
  checkAddress(host, /:\/\/|@/, `${origin}.host`);
  // An @ may stand in the name of a file.
  checkAddress(path, /:\/\//, `${origin}.path`);
  for (const [index, sentinel] of sentinels?.entries() ?? []) {
    checkAddress(sentinel.host, /:\/\/|@/, `${origin}.sentinels[${index}].host`);
  }
}

function checkAddress(address: unknown, forbidden: RegExp, origin: string): void {
  const given = address ?? '';
  if (typeof given !== 'string') throw wrongType(origin, 'a string', given);
  if (!forbidden.test(given)) return;
  // Without the address: it may hold a password.
  throw new TypeError(
    `Expected ${origin} to be no URL and to hold neither user nor password; ` +
      'give a URL as a string or as { url }, user and password as options of their own',
  );
}

// Behind Sentinel ioredis goes by `tls` only if a second option says so. Without a name it throws,
// and says neither which node it is nor what to name.
function checkSentinels(options: ServerOptions, origin: string): void {
  const { name, sentinels, tls } = options;
  if (!sentinels) return;
  if (!name) throw wrongType(`${origin}.name`, 'what its sentinels call the master', name);
  if (!tls || options.enableTLSForSentinelMode === true) return;
  throw new TypeError(
    `Expected ${origin} to have enableTLSForSentinelMode: true beside sentinels and tls; ` +
      'else ioredis sends the password to the master in clear',
  );
}

// As in Node.js, the option overrules the environment variable for the whole process.
function isUnverified({ tls, sentinelTLS }: ServerOptions): boolean {
  const rejectUnauthorized = process.env.NODE_TLS_REJECT_UNAUTHORIZED !== '0';
  const given = [tls, sentinelTLS].filter((each) => Boolean(each));
  return given.some((each) => ({ rejectUnauthorized, ...each }).rejectUnauthorized === false);
}

function addressOf(options: ServerOptions): { name: string; identity: string } {
  const scheme = options.tls ? 'rediss' : 'redis';
  const db = options.db ?? 0;
  if (options.sentinels) {
    const hosts = options.sentinels.map(
      ({ host, port }) => `${host ?? DEFAULT_HOST}:${port ?? SENTINEL_PORT}`,
    );
    const identity = `${hosts.sort().join(',')}/${options.name ?? ''}`;
    return { name: `${scheme}+sentinel://${identity}/${db}`, identity };
  }
  // Not an empty one, such as a variable that is not set: ioredis goes by the host then.
  if (options.path) {
    return { name: `${scheme}+unix://${options.path}/${db}`, identity: options.path };
  }
  const host = (options.host ?? DEFAULT_HOST).toLowerCase();
  const identity = `${host.includes(':') ? `[${host}]` : host}:${options.port ?? DEFAULT_PORT}`;
  return { name: `${scheme}://${identity}/${db}`, identity };
}

/** As in ioredis 6. */
const KEEP_ALIVE: Milliseconds = 30_000;

const DEFAULT_HOST = 'localhost';
const DEFAULT_PORT = 6379;
const SENTINEL_PORT = 26379;
