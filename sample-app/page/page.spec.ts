// How the page is read and worked: by keyboard or screen reader, in other colours and sizes, paused, in
// many tabs, and while its server is gone.
import { describe, expect, it } from '@jest/globals';

import { openPage, scene } from '../../test/support/lab-of-spec.js';
import { until } from '../../test/support/lab-page.js';

const UNLOCKED = { stock: 20, buyers: 40, replicas: 2, section: 20, isLocked: false };

describe('the page of the lock lab', () => {
  it.each([
    { scheme: 'light', isLocked: true, checkedAt: 1600 },
    { scheme: 'dark', isLocked: false, checkedAt: 360 },
  ] as const)('is accessible in $scheme', async ({ scheme, isLocked, checkedAt }) => {
    // axe is injected into the page, which forbids foreign scripts.
    const options = { colorScheme: scheme, reducedMotion: 'reduce', bypassCSP: true } as const;
    const lab = await openPage(options);
    await lab.click('Start the job');
    await lab.click('Acquire');
    await lab.see('HTTP/1.1');
    await lab.click(isLocked ? 'Sell with @Locked' : 'Sell without a lock');
    if (isLocked) await lab.reach('sold', 25);
    else await lab.see('Oversold without a lock');
    await lab.click('Restart node 5');
    await lab.nodeIs(5, 'quarantined');
    for (const width of [1600, 360]) {
      await lab.page.setViewportSize({ width, height: 1000 });
      await lab.picture(`${scheme}-${width}`);
      expect(await lab.isWiderThanScreen()).toBe(false);
    }
    await lab.click('Stop the job');
    if (isLocked) await lab.see('Sold exactly the stock');
    await lab.page.setViewportSize({ width: checkedAt, height: 1000 });

    expect([await lab.violations(), await lab.hasMotion()]).toEqual([[], false]);

    await lab.see('5 of 5 vote');
  });

  it('pauses, zooms and goes on by keyboard alone', async () => {
    const lab = await openPage();
    const zoom = lab.page.getByLabel('Time seen');
    await lab.page.getByRole('button', { name: 'Sell with @Locked' }).focus();
    await lab.page.keyboard.press('Enter');
    await lab.see('Selling with @Locked');

    await lab.page.getByRole('button', { name: 'Pause' }).focus();
    await lab.page.keyboard.press('Space');
    await lab.page.getByRole('button', { name: 'Zoom in' }).focus();
    await lab.page.keyboard.press('Enter');
    expect(await zoom.textContent()).toBe('1 s');
    await lab.page.keyboard.press('Tab');
    await lab.page.keyboard.press('Enter');
    expect(await lab.page.evaluate('document.activeElement.ariaLabel')).toBe('Earlier');
    await lab.page.getByRole('button', { name: 'Go on' }).press('Enter');

    await lab.page.getByRole('button', { name: 'Pause' }).waitFor();
    await lab.see('Sold exactly the stock');
  });

  it('filters the log by kind and by text', async () => {
    const lab = await openPage();
    const lines = lab.page.locator('.lines li p');
    await lab.sell({ ...UNLOCKED, isLocked: true });
    await lab.see('Sold exactly the stock');
    await lab.page.getByRole('searchbox').fill('sale over');
    await lines.filter({ hasText: 'Sale over: 20 sold' }).first().waitFor();
    expect(await lines.filter({ hasText: 'acquired' }).count()).toBe(0);

    await lab.page.getByRole('button', { name: /action/ }).click();

    await lab.see('Nothing of this kind yet');
  });

  it('keeps the colours that tell something where the reader has chosen others', async () => {
    const lab = await openPage({ forcedColors: 'active' });
    await lab.sell(UNLOCKED);
    await lab.see('Oversold without a lock');

    const [locked, watched] = await lab.page.evaluate<string[]>(SWITCH_COLOURS);
    expect(locked).toBe(watched);
    await lab.page.locator('.sale input[name=isLocked]').check();
    const [on, off] = await lab.page.evaluate<string[]>(SWITCH_COLOURS);
    expect(on).not.toBe(off);
    await until(() => lab.page.evaluate<boolean>(HAS_RED_BARS));
  });

  it('does not change a paused picture when another sale starts', async () => {
    const lab = await openPage();
    await lab.sell(UNLOCKED);
    await lab.see('Oversold without a lock');
    const summary = lab.page.locator('#timeline-summary');
    const height = (): Promise<number> =>
      lab.page.evaluate(`document.querySelector('canvas').height`);
    // Oversold is seen while others are still inside.
    await lab.see('of the 40 turns of this sale overlapped');
    await lab.click('Pause');
    const before = [await summary.textContent(), await height()];

    await lab.sell({ ...UNLOCKED, replicas: 1, isLocked: true });
    await lab.see('Sold exactly the stock, with @Locked');

    expect([await summary.textContent(), await height()]).toEqual(before);
    await lab.click('Go on');
    await lab.see('No overlap among the 40 turns of this sale');
  });

  it('listens only while it can be seen, so that many tabs do not block each other', async () => {
    const lab = await openPage();
    const hungUp = lab.page.waitForEvent('requestfailed', (request) =>
      request.url().endsWith('/lab/events'),
    );

    await lab.page.evaluate(`${BE_SEEN}(false)`);

    await hungUp;
    await lab.see('… connecting');
    await lab.page.evaluate(`${BE_SEEN}(true)`);
    await lab.see('● live');
  });

  it('covers nothing that has the focus by a notice', async () => {
    const lab = await openPage({ viewport: { width: 375, height: 700 } });
    await lab.click('Freeze three nodes');
    await lab.see('No quorum');
    await lab.page.getByText('The last turns as a table').focus();

    const covered: string[] = [];
    for (let times = 0; times < 30; times += 1) {
      await lab.page.keyboard.press('Tab');
      covered.push(...(await lab.page.evaluate<string[]>(COVERED)));
    }

    await lab.click('Heal all');
    expect(covered).toEqual([]);
    await lab.see('5 of 5 vote');
  });

  it('says that a click got no answer, and does not call a server gone that is back', async () => {
    const lab = await openPage();
    await lab.page.context().setOffline(true);
    await lab.click('Start the job');
    await lab.see('No answer to the last click: the server could not be reached.');

    await lab.page.context().setOffline(false);

    await lab.see('● live');
    await lab.click('Start the job');
    await lab.click('Stop the job');
    await lab.page.locator('.notice').waitFor({ state: 'detached' });
    // The browser has reported what it could not reach.
    lab.errors.length = 0;
  });

  it('finds its server again after a restart', async () => {
    const lab = await openPage();
    await lab.page.locator('.try input[name=watchdog]').check();
    await lab.click('Acquire');
    await lab.see('you hold demo');
    await scene.kill();
    await lab.see('no connection, trying again');
    await lab.see('What you see is how it was before');
    await lab.page.setViewportSize({ width: 360, height: 640 });
    expect(await lab.isWiderThanScreen()).toBe(false);

    await scene.restart();

    await lab.see('● live');
    await lab.see('you hold nothing');
    // The browser has reported what it could not reach.
    lab.errors.length = 0;
  });
});

const SWITCH_COLOURS = `['isLocked', 'watchdog'].map((name) =>
  getComputedStyle(document.querySelector('input[name=' + name + ']')).backgroundColor)`;

/** Whether the timeline has something in the colour of an overlap. */
const HAS_RED_BARS = `(() => {
  const { width, height } = document.querySelector('canvas');
  const { data } = document.querySelector('canvas').getContext('2d').getImageData(0, 0, width, height);
  return data.some((red, at) => at % 4 === 0 && red > 180 && data[at + 1] < 120 && data[at + 2] < 140);
})()`;

/** As if the tab came to the front, or another one did. */
const BE_SEEN = `((isSeen) => {
  Object.defineProperty(document, 'hidden', { configurable: true, value: !isSeen });
  document.dispatchEvent(new Event('visibilitychange'));
})`;

/** The name of what has the focus, if a notice covers all of it. */
const COVERED = `(() => {
  const { activeElement: element } = document;
  const notice = document.querySelector('.notice').getBoundingClientRect();
  const { top, bottom } = element.getBoundingClientRect();
  if (element === document.body || element.closest('.notice') !== null) return [];
  return top >= notice.top && bottom <= notice.bottom ? [element.ariaLabel ?? element.name] : [];
})()`;
