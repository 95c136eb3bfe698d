// A script on the server of the spec, with the server's time.
import { client } from '../../support/redis-of-spec.js';

export interface Evaluated {
  /** The server's time, in µs. */
  readonly now: number;
  /** What the call took, in ms. */
  readonly took: number;
  readonly reply: unknown;
}

/**
 * The operation and the server's time in one step: between two commands keys may expire. The time is
 * the one that the operation reads, so that both judge a token alike at the very border.
 */
export async function evaluate(
  text: string,
  args: readonly (string | number)[],
): Promise<Evaluated> {
  const timed = `
local time = redis.call('TIME')
local function call(command, ...)
  if command == 'TIME' then return time end
  return redis.call(command, ...)
end
local redis = {call = call, pcall = redis.pcall}
local function operation()
${text}
end
local isDone, reply = pcall(operation)
local now = time[1] * 1000000 + time[2]
if isDone then return {now, reply} end
return {now, type(reply) == 'table' and reply.err or reply}`;
  const startedAt = performance.now();
  const [now, reply] = (await client.call('eval', timed, ...args)) as [number, unknown];
  const took = performance.now() - startedAt;
  if (typeof reply !== 'string') return { now, took, reply };
  if (reply.includes('OOM')) return { now, took, reply: 'oom' };
  throw new Error(reply);
}

/** The server's time, in µs. */
export async function microseconds(): Promise<number> {
  const [seconds, rest] = await client.time();
  return Number(seconds) * 1_000_000 + Number(rest);
}
