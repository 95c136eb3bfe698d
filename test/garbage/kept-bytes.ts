// Started by garbage.spec.ts, with --expose-gc: acquires and releases many locks on the servers
// whose URLs it is given, and prints the bytes per lock that collections of young objects left.
import { Redlock } from '../../lib/core/redlock.js';
import { resolveOptions } from '../../lib/core/options.js';
import { silentObserver } from '../../lib/core/observer.js';
import { createNodes } from '../../lib/nodes/node-inputs.js';

const CALLERS = 512;
/** Until V8 has compiled what runs often and has made up its mind about it. */
const WARM_UP_TURNS = 200;
const TURNS = 200;
const ROUNDS = 3;

const collect = globalThis.gc as (what?: { type: 'minor' }) => void;
const urls = process.argv.slice(2);
const options = { quarantine: false };
const nodes = createNodes(urls, resolveOptions(options, urls.length), { observer: silentObserver });
await nodes.whenReady(5_000);
const redlock = new Redlock(nodes.nodes, options);

/** Every caller acquires and releases a lock of its own, so many times. */
async function takeTurns(turns: number): Promise<void> {
  const call = async (caller: number): Promise<void> => {
    for (let turn = 0; turn < turns; turn += 1) {
      const lock = await redlock.acquire(`caller:${caller}`, 10_000);
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
}

await takeTurns(WARM_UP_TURNS);
collect();
for (let round = 0; round < ROUNDS; round += 1) {
  const before = process.memoryUsage().heapUsed;
  await takeTurns(TURNS);
  // One that survived the first, for it was young then, ends with the second.
  collect({ type: 'minor' });
  collect({ type: 'minor' });
  console.log(Math.round((process.memoryUsage().heapUsed - before) / (CALLERS * TURNS)));
}
await nodes.close();
