// The page for those who read it in other ways: other colours, by keyboard, paused, in many tabs.
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';

import { Lab } from '../../test/support/lab.js';
import { until, type LabPage } from '../../test/support/lab-page.js';

const UNLOCKED = { stock: 20, buyers: 40, replicas: 2, section: 20, isLocked: false };

describe('the page of the lock lab', () => {
  let scene: Lab;
  let lab: LabPage;

  beforeAll(async () => {
    scene = await Lab.start();
  });

  afterAll(() => scene.stop());

  afterEach(async () => {
    await lab.close();
    expect(lab.errors).toEqual([]);
  });

  it('keeps the colours that tell something where the reader has chosen others', async () => {
    lab = await scene.open({ forcedColors: 'active' });
    await lab.sell(UNLOCKED);
    await lab.see('Oversold without a lock');

    const [locked, watched] = await lab.page.evaluate<string[]>(SWITCH_COLOURS);
    expect(locked).toBe(watched);
    await lab.page.locator('.sale input[name=isLocked]').check();
    const [on, off] = await lab.page.evaluate<string[]>(SWITCH_COLOURS);
    expect(on).not.toBe(off);
    await until(() => lab.page.evaluate<boolean>(HAS_RED_BARS));
  });

  it('tells of a sale without a lock that its pieces are still on sale', async () => {
    lab = await scene.open();
    await lab.sell({ ...UNLOCKED, stock: 40 });

    await lab.see(/▲ 40 sold without a lock, [1-9]\d* of them still on sale/);
    expect(await lab.figure('oversold')).toBe(0);
  });

  it('does not change a paused picture when another sale starts', async () => {
    lab = await scene.open();
    await lab.sell(UNLOCKED);
    await lab.see('Oversold without a lock');
    const summary = lab.page.locator('#timeline-summary');
    const height = (): Promise<number> =>
      lab.page.evaluate(`document.querySelector('canvas').height`);
    const before = [await summary.textContent(), await height()];
    await lab.click('Pause');

    await lab.sell({ ...UNLOCKED, replicas: 1, isLocked: true });
    await lab.see('Sold exactly the stock, with @Locked');

    expect([await summary.textContent(), await height()]).toEqual(before);
    await lab.click('Go on');
    await lab.see('No overlap among the 40 turns of this sale');
  });

  it('speaks of the last turns when it no longer knows them all', async () => {
    lab = await scene.open();
    const many = { stock: 3_100, buyers: 3_100, replicas: 4, section: 1 };
    await lab.sell({ ...many, isLocked: false });

    await lab.see(/3100 sold without a lock/);
    await lab.see(/of the last 3000 turns of this sale overlapped/);
  });

  it('listens only while it can be seen, so that many tabs do not block each other', async () => {
    lab = await scene.open();
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
    lab = await scene.open({ viewport: { width: 375, height: 700 } });
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
    lab = await scene.open();
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
