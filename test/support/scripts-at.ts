// The scripts, told what time it is: a server's clock cannot be set.
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';
import type { Microseconds } from '../../lib/core/units.js';
import { worldOf } from './node-harness.js';
import { client } from './redis-of-spec.js';

/** What the script of this name does when the server's clock shows `now`, with its text edited. */
export function runAt(
  now: Microseconds,
  name: 'acquire' | 'extend' | 'release' | 'batch',
  args: readonly (string | number)[],
  { on = client, of = worldOf(), edit = (text: string): string => text } = {},
): Promise<unknown> {
  const time = `{'${Math.floor(now / 1_000_000)}', '${now % 1_000_000}'}`;
  const text = `
local server = redis
local function call(command, ...)
  if command == 'TIME' then return ${time} end
  return server.call(command, ...)
end
local redis = {call = call, pcall = server.pcall}
${edit(scriptsOf(of, false)[name].text)}`;
  return on.call('eval', [text, ...args]);
}
