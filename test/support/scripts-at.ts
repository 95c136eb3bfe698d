// The scripts by themselves, and told what time it is: a server's clock cannot be set.
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';
import { TAGS, unstamped } from '../../lib/nodes/redis-stamp.js';
import type { Microseconds } from '../../lib/core/units.js';
import { worldOf } from './node-harness.js';
import { client } from './redis-of-spec.js';

/** That of all calls of scripts here. */
export const TAG = 42;

/** What the reply to a call with {@link TAG} says. */
export function saidIn(reply: unknown): number | readonly unknown[] {
  const said = unstamped(reply, TAG);
  if (said === null) throw new Error(`No stamp of ${TAG}: ${JSON.stringify(reply)}`);
  return said;
}

/**
 * What the script of this name says when the server's clock shows `now`, with its text edited: that
 * time is given as it is.
 */
export async function runAt(
  now: Microseconds,
  name: 'acquire' | 'extend' | 'release' | 'batch',
  args: readonly (string | number)[],
  { on = client, of = worldOf(), edit = (text: string): string => text } = {},
): Promise<number | readonly unknown[]> {
  const time = `{'${Math.floor(now / 1_000_000)}', '${now % 1_000_000}'}`;
  const text = `
local server = redis
local function call(command, ...)
  if command == 'TIME' then return ${time} end
  return server.call(command, ...)
end
local redis = {call = call, pcall = server.pcall}
${edit(scriptsOf(of, false)[name].text)}`;
  const said = saidIn(await on.call('eval', [text, ...args]));
  if (name === 'release') return said;
  // Rounded up. A world that reads no clock has 0.
  const isNow = (count: unknown): boolean => count === Math.ceil(now / TAGS);
  if (!Array.isArray(said)) return isNow(said) ? now : said;
  const [count, ...rest] = said as unknown[];
  return [isNow(count) ? now : count, ...rest];
}
