// Three replicas of the application sell 100 pieces to 300 buyers who all come at once.
// Run it by `npm run demo:contention`; options, after `--`:
//   --no-lock  without locks: shows the overselling
//   --faults   kills one of the five lock nodes and freezes another in the middle of the sale
import { parseArgs } from 'node:util';

import { findRedisServer, RedisServer, startRedisServers } from '../infrastructure/redis-server.js';
import { buy } from './buyer.js';
import { startReplica } from './replica.js';
import { Sale } from './sale.js';

const PIECES = 100;
const BUYERS = 300;
const REPLICAS = 3;
const SKU = 'demo';

const { values: options } = parseArgs({
  options: {
    'no-lock': { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
  },
});
const isLocked = !options['no-lock'];

if (findRedisServer() === null) {
  console.error('The demonstration needs redis-server or valkey-server: install one of them.');
  process.exit(1);
}

// What is started here ends with this process, also on Ctrl-C: see bound-process.ts.
const nodes = await startRedisServers(5);
const store = await RedisServer.start();
const world = { nodes: nodes.map(({ url }) => url), store: store.url, isLocked };
const replicas = await Promise.all(Array.from({ length: REPLICAS }, () => startReplica(world)));
const shops = replicas.map(({ url }) => url);

await stockUp(shops);
console.log(`${BUYERS} buyers, ${PIECES} pieces, ${REPLICAS} replicas, ${nodes.length} nodes`);
const sale = await sell(shops);
console.log(sale.table());

await Promise.all(replicas.map((replica) => replica.stop()));
await Promise.all([...nodes, store].map((server) => server.kill()));
const { isAsExpected, text } = judge(sale);
console.log(`${text}: ${isAsExpected ? 'as expected' : 'FAILED'}`);
process.exitCode = isAsExpected ? 0 : 1;

/** Sets the stock. Brand-new nodes grant no lock for 5 s: the answer comes when they do. */
async function stockUp([shop = '']: readonly string[]): Promise<void> {
  const response = await fetch(`${shop}/inventory/${SKU}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ stock: PIECES }),
  });
  if (!response.ok) throw new Error(`The stock could not be set: ${await response.text()}`);
}

/** Starts all buyers at once, spread evenly. The faults come when a tenth has an answer. */
async function sell(shops: readonly string[]): Promise<Sale> {
  const startedAt = performance.now();
  let answers = 0;
  const purchases = Array.from({ length: BUYERS }, async (_, index) => {
    const purchase = await buy(shops[index % shops.length] ?? '', SKU);
    answers += 1;
    if (options.faults && answers === BUYERS / 10) breakTwoNodes();
    return purchase;
  });
  return new Sale(PIECES, await Promise.all(purchases), performance.now() - startedAt);
}

function breakTwoNodes(): void {
  const [killed, frozen] = nodes;
  void killed?.kill();
  frozen?.freeze();
  console.log('  … one node killed, another frozen');
}

function judge({ sold, oversold, failed }: Sale): { isAsExpected: boolean; text: string } {
  if (failed > 0) return { isAsExpected: false, text: `${failed} buyers got no proper answer` };
  const text = `sold ${sold} of ${PIECES} pieces ${isLocked ? 'with' : 'without'} locks`;
  return { isAsExpected: isLocked ? sold === PIECES : oversold > 0, text };
}
