import { isSelling, isWorking } from '../lab/phases.js';
import { saleDefaults } from '../lab/sale-defaults.js';
import { canBreakNodes, canSell, job, sale } from './lab-state.js';
import { haveSale, healNodes, send, startSale, treat } from './requests.js';

/** What to try, in order: two minutes. */
export function Tour() {
  const canStart = canSell.value && !isSelling(sale.value);
  const canBreak = canBreakNodes.value;
  return (
    <section class="tour" aria-label="What to try, in two minutes">
      <ol>
        <Step title="Without a lock">
          <p>Three replicas read the same stock and all sell it: pieces that never existed.</p>
          <button
            type="button"
            class="primary"
            disabled={!canStart}
            onClick={() => startSale({ ...saleDefaults, isLocked: false })}
          >
            Sell without a lock
          </button>
        </Step>
        <Step title="With @Locked">
          <p>One buyer at a time is inside, over all replicas: exactly the stock is sold.</p>
          <button
            type="button"
            class="primary"
            disabled={!canStart}
            onClick={() => startSale(saleDefaults)}
          >
            Sell with @Locked
          </button>
        </Step>
        <Step title="Kill a replica">
          <p>The replica inside dies. Its lock ends with the ttl of 3 s, and the others go on.</p>
          <button type="button" disabled={!canSell.value} onClick={killReplica}>
            Kill who is inside
          </button>
        </Step>
        <Step title="Break nodes">
          <p>
            Two frozen nodes of five change nothing. With three, nobody gets a lock, and nothing is
            sold.
          </p>
          <div class="buttons">
            <button type="button" disabled={!canBreak} onClick={() => breakNodes([1, 2])}>
              Freeze two
            </button>
            <button type="button" disabled={!canBreak} onClick={() => breakNodes([1, 2, 3])}>
              Freeze three
            </button>
            <button type="button" disabled={!canBreak} onClick={healNodes}>
              Heal all
            </button>
          </div>
        </Step>
        <Step title="Lose a lock">
          <p>When its nodes fail, a long job is told to stop, and its late write is refused.</p>
          <div class="buttons">
            <button
              type="button"
              disabled={isWorking(job.value)}
              onClick={() => send('/lab/job/start')}
            >
              Start the job
            </button>
            <a class="button" href="#job">
              Watch it
            </a>
          </div>
        </Step>
      </ol>
    </section>
  );
}

function Step({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return (
    <li>
      <h2>{title}</h2>
      {children}
    </li>
  );
}

async function killReplica(): Promise<void> {
  await haveSale();
  await send('/lab/sale/kill-replica');
}

/** Acts in the middle of a sale, so that there is something to see. */
async function breakNodes(numbers: readonly number[]): Promise<void> {
  await haveSale();
  await treat(numbers, 'freeze');
}
