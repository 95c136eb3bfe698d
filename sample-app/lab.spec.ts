// What the lab shows, in a real browser, over five real servers and real processes.
import { beforeEach, describe, expect, it } from '@jest/globals';

import { openPage } from '../test/support/lab-of-spec.js';
import { until, type LabPage } from '../test/support/lab-page.js';

const SALE = { stock: 20, buyers: 40, replicas: 3, section: 20 };
/** Longer than a test waits. */
const ENDLESS = { stock: 10_000, buyers: 10_000, replicas: 3, section: 10 };

describe('the lock lab', () => {
  let lab: LabPage;

  beforeEach(async () => {
    lab = await openPage();
  });

  it('oversells without the lock, and shows who was inside at once', async () => {
    await lab.sell({ ...SALE, isLocked: false });
    await lab.see(/Oversold without a lock: \d+ too many/);

    expect(await lab.figure('sold')).toBeGreaterThan(20);
    expect(await lab.figure('oversold')).toBe((await lab.figure('sold')) - 20);
    await lab.see(/\d+ of the \d+ turns of this sale overlapped/);
  });

  it('tells of a sale without a lock that its pieces are still on sale', async () => {
    await lab.sell({ ...SALE, stock: 40, isLocked: false });

    await lab.see(/▲ 40 sold without a lock, [1-9]\d* of them still on sale/);
    expect(await lab.figure('oversold')).toBe(0);
  });

  it('speaks of the last turns when it no longer knows them all', async () => {
    const many = { stock: 3_100, buyers: 3_100, replicas: 4, section: 1 };
    await lab.sell({ ...many, isLocked: false });

    await lab.see(/3100 sold without a lock/);
    await lab.see(/of the last 3000 turns of this sale overlapped/);
  });

  it('sells exactly the stock with the lock, one buyer at a time', async () => {
    await lab.sell({ ...SALE, isLocked: true });
    await lab.see('Sold exactly the stock, with @Locked');

    const figures = [await lab.figure('sold'), await lab.figure('refused')];
    expect([...figures, await lab.figure('oversold')]).toEqual([20, 20, 0]);
    await lab.see('No overlap among the 40 turns of this sale');
    await lab.page.getByText('The last turns as a table').click();
    await lab.see(/^\d{16}$/);
  });

  it('sells on with two frozen nodes, nothing with three, and on when they are thawed', async () => {
    // In one go: the page does not show yet whether there is a sale.
    await lab.fillSale({ ...ENDLESS, isLocked: true });
    await lab.clickTogether('Start', 'Freeze two');
    await Promise.all([lab.nodeIs(1, 'suspended'), lab.nodeIs(2, 'suspended')]);
    await lab.reach('sold', (await lab.figure('sold')) + 20);
    await lab.click('Freeze node 3');
    await lab.see('No quorum: 2 nodes vote, 3 are needed');
    // Whoever was inside has left once as many buyers as there are counters were told to retry.
    const told = await lab.comeAgain();
    await until(async () => (await lab.comeAgain()) >= told + 12);
    const sold = await lab.figure('sold');
    await until(async () => (await lab.comeAgain()) >= told + 24);
    expect(await lab.figure('sold')).toBe(sold);
    await lab.see('NoQuorumError');
    expect(await lab.page.locator('.votes').first().textContent()).toMatch(/failed/);

    await lab.click('Heal all');
    await lab.reach('sold', sold + 20);
    await lab.click('Stop');
    await lab.see('none too many');
    expect(await lab.figure('oversold')).toBe(0);
  });

  it('sells on when a replica is killed inside, and another takes its place', async () => {
    const few = { ...SALE, stock: 5, buyers: 5, replicas: 2 };
    await lab.sell({ ...few, isLocked: true, isEndless: true });
    const ended = lab.page.getByText('Has ended: what it holds ends with the ttl');
    // The second kill would leave none if nobody had taken the place of the first.
    for (const times of [1, 2]) {
      await lab.click('Kill who is inside');
      await until(async () => (await ended.count()) >= times);
      await lab.reach('sold', (await lab.figure('sold')) + 6);
    }
    await lab.click('Stop');

    // The latter if the stop came between two rounds.
    await lab.see(/none too many|Sold exactly the stock/);
    expect(await lab.figure('oversold')).toBe(0);
  });

  it('ends the sale when its last replica is killed, and says so', async () => {
    await lab.fillSale({ ...ENDLESS, replicas: 1, isLocked: false });
    await lab.clickTogether('Start', 'Kill who is inside');

    await lab.see('✕ All replicas have ended');
  });

  it('shows a killed node as down, and its quarantine after a restart', async () => {
    await lab.click('Kill node 5');
    await lab.nodeIs(5, 'down');
    await lab.see('4 of 5 vote');

    await lab.click('Restart node 5');

    await lab.nodeIs(5, 'quarantined');
    const meter = lab.page.getByRole('meter', { name: 'Quarantine of node 5' });
    expect(Number(await meter.getAttribute('aria-valuenow'))).toBeGreaterThan(0);
    await lab.see('4 of 5 vote');
    await lab.nodeIs(5, 'up');
    await lab.see('5 of 5 vote');
  });

  it('shows how much later a delayed node answers, and who holds what there', async () => {
    await lab.page.locator('.nodes').waitFor();
    await lab.click('+50 ms node 4');
    await lab.click('Start the job');
    await lab.page.getByLabel('Resource').first().selectOption('long-job');

    await until(async () => (await lab.latency(4)) >= 50 && (await lab.latency(1)) < 50);
    await lab.page.locator('[data-node="4"] .holder', { hasText: 'long-job: app' }).waitFor();

    await lab.click('Stop the job');
    await lab.click('Undelay node 4');
    await until(async () => (await lab.latency(4)) < 50);
  });

  it('aborts the long job when three nodes are frozen, and refuses its late write', async () => {
    await lab.click('Start the job');
    await lab.see(/extended\s*[1-9]\d* ×/);

    await lab.click('Freeze three nodes');
    await lab.see(/The signal aborted \(expired\): holder \d+ has stopped/);
    const validity = lab.page.getByRole('meter', { name: "Validity of the job's lock" });
    expect(await validity.getAttribute('aria-valuenow')).toBe('0');
    await lab.click('Acquire');
    await lab.see('HTTP/1.1 503 Service Unavailable');
    await lab.see('Retry-After: 1');

    await lab.click('Heal all');
    await lab.see(/Holder with fencing token \d+ works from step [1-9]/);
    await lab.see(/refused a late write of the holder before: Fencing token \d+ is stale/);
    await lab.click('Stop the job');
    await lab.see('5 of 5 vote');
  });

  it('acquires, refuses, extends and releases by hand, with what a client gets', async () => {
    await lab.page.locator('.try input[name=resource]').fill('by-hand');
    await lab.click('Acquire');
    await lab.see('HTTP/1.1 201 Created');
    await lab.see('you hold by-hand');
    await lab.click('Acquire');
    await lab.see('HTTP/1.1 423 Locked');
    await lab.see(/Retry-After: \d/);
    await lab.click('Extend');
    await lab.see('HTTP/1.1 200 OK');
    await lab.click('Inspect');
    await lab.see('"state": "held"');
    await lab.click('Release');
    await lab.see('HTTP/1.1 204 No Content');

    expect(await lab.page.locator('.curl pre').textContent()).toMatch(
      /^curl -i -X POST 'http:.*\/lab\/locks\/by-hand\/release' -H .* -d '\{"ownerId":"[^"]+"\}'$/,
    );
  });

  it('asks for a number that is missing, and keeps what can be copied', async () => {
    await lab.page.locator('.try input[name=resource]').fill('numbers');
    await lab.page.locator('.try input[name=ttl]').fill('');
    await lab.click('Acquire');

    await lab.see('you hold nothing');
    await lab.page.locator('.try input[name=ttl]:invalid').fill('700');
    await lab.click('Acquire');
    await lab.see('you hold numbers');
    await lab.click('Copy');
    await lab.see('Copied');
  });

  it('holds nothing by hand any more when that lock is lost, extended by the watchdog or not', async () => {
    await lab.page.locator('.try input[name=resource]').fill('lost');
    // The nodes keep a lock for some moments longer than it is valid.
    await lab.page.locator('.try input[name=wait]').fill('2000');
    await lab.click('Acquire');
    await lab.page.locator('.try input[name=watchdog]').check();
    await lab.click('Extend');
    await lab.see('you hold lost');
    // As when it was acquired: the switch applies to the next lock.
    await lab.see('you hold nothing');
    await lab.click('Acquire');
    await lab.see('you hold lost');

    await lab.click('Freeze three nodes');

    await lab.see('you hold nothing');
    await lab.click('Heal all');
    await lab.see('5 of 5 vote');
  });

  it('ends a sale that is stopped while its replicas start', async () => {
    await lab.sell({ ...ENDLESS, replicas: 4, isLocked: true });
    await lab.click('Stop');

    await lab.see('Nothing sold yet');
  });
});
