// What fencing costs in each form, and who gets locks: the tables of docs/FENCING-COSTS.md.
// Usage: npm run bench:fencing [-- rounds seconds], by default 7 rounds of 1 s.
import { figureOf } from '../measure/statistics.js';
import { withServers } from '../scenarios/servers.js';
import { measureShares, type Aim, type ClientClass } from './distance.js';
import { forms, type Form } from './forms.js';
import { measureCost, measureMemory, type Cost } from './pairs.js';

const [rounds = 7, seconds = 1] = process.argv.slice(2).map(Number);

const client = { callers: 4, roundTrip: 0, skew: 0, restarts: false };
const near = { ...client, name: 'near', callers: 24 };
const far = { ...client, name: '100 ms away', callers: 12, roundTrip: 100 };
const scenes: Record<string, readonly ClientClass[]> = {
  'Near and far': [near, { ...far, name: '20 ms away', roundTrip: 20 }, far],
  'Wrong clocks': [
    near,
    ...[-500, -50, 50, 500].map((skew) => ({ ...client, name: `${skew} ms`, skew })),
  ],
  'Restarts with a clock 500 ms ahead': [
    near,
    far,
    { ...client, name: '500 ms ahead', skew: 500, restarts: true },
  ],
};

await withServers(3, async (_servers, urls) => {
  await compareCosts(urls);
  for (const [title, classes] of Object.entries(scenes)) await compareShares(urls, title, classes);
});

async function compareCosts(urls: readonly string[]): Promise<void> {
  const costs = new Map<Form, Cost[]>(forms.map((form) => [form, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const form of [...forms].sort(() => Math.random() - 0.5)) {
      const cost = await measureCost(urls, form, seconds);
      // The first round warms up compilers and caches.
      if (round > 0) costs.get(form)?.push(cost);
    }
  }
  console.log('| | pairs/s | server µs | client µs | commands | bytes per resource |');
  console.log('|---|---|---|---|---|---|');
  for (const [form, all] of costs) {
    const median = (name: keyof Cost, digits: number): string =>
      figureOf(all.map((cost) => cost[name])).median.toFixed(digits);
    const memory = Math.round(await measureMemory(urls[0] ?? '', form));
    const [rate, cpu] = [median('pairsPerSecond', 0), median('serverCpu', 1)];
    const others = `${median('clientCpu', 1)} | ${median('commands', 2)}`;
    console.log(`| ${form.name} | ${rate} | ${cpu} | ${others} | ${memory} |`);
  }
}

async function compareShares(
  urls: readonly string[],
  title: string,
  classes: readonly ClientClass[],
): Promise<void> {
  console.log(`\n${title}: acquisitions/s (stale, % of attempts; token ahead by at most, ms)\n`);
  console.log(`| | aim | ${classes.map(({ name }) => name).join(' | ')} |`);
  console.log(`|---|---|${classes.map(() => '---|').join('')}`);
  for (const form of forms) {
    const aims: readonly Aim[] = form.world.fencing ? ['sent', 'arrival'] : ['sent'];
    for (const aim of aims) {
      const shares = await measureShares(urls, form, aim, classes, 2 * seconds);
      const cells = shares.map(({ acquisitions, attempts, leads, stale }) => {
        const rate = Math.round(acquisitions / (2 * seconds));
        const lead = form.world.fencing ? `; ${Math.round(figureOf(leads).max)}` : '';
        return `${rate} (${Math.round((100 * stale) / attempts)}${lead})`;
      });
      console.log(`| ${form.name} | ${aim} | ${cells.join(' | ')} |`);
    }
  }
}
