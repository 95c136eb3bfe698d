// The sample app's page in a real browser, as a user finds and clicks it.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import axe from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

import { eventually } from './eventually.js';

const ROOT = join(import.meta.dirname, '../..');

/** What the sale's form takes. */
export interface SaleForm {
  readonly stock: number;
  readonly buyers: number;
  readonly section: number;
  readonly replicas: number;
  readonly isLocked: boolean;
  /** By default false: the form shows what ran last. */
  readonly isEndless?: boolean;
}

export class LabPage {
  /** What the browser complained about. */
  readonly errors: string[] = [];

  private constructor(readonly page: Page) {
    page.on('pageerror', ({ message }) => this.errors.push(message));
    page.on('console', (message) => {
      // The browser's own remark on an answer such as 423, which the page shows on purpose.
      const isAnswer = message.location().url.includes('/lab/locks/');
      const isComplaint = ['error', 'warning'].includes(message.type());
      if (isComplaint && !isAnswer) this.errors.push(message.text());
    });
  }

  /** Opens the page, and waits until all nodes vote. */
  static async open(
    browser: Browser,
    url: string,
    options: BrowserContextOptions = {},
  ): Promise<LabPage> {
    const context = await browser.newContext({
      viewport: { width: 1600, height: 1000 },
      ...options,
    });
    const lab = new LabPage(await context.newPage());
    await lab.page.goto(url);
    await lab.see('5 of 5 vote');
    return lab;
  }

  /** Waits until this is to be seen somewhere. */
  async see(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).first().waitFor();
  }

  async click(name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).first().click();
  }

  /** Before the page has heard of anything in between. */
  async clickTogether(...names: string[]): Promise<void> {
    const buttons = `[...document.querySelectorAll('button')]`;
    const clicks = names.map(
      (name) => `${buttons}.find((button) => button.textContent === '${name}').click()`,
    );
    await this.page.evaluate(clicks.join(';'));
  }

  async sell(form: SaleForm): Promise<void> {
    await this.fillSale(form);
    await this.click('Start');
  }

  async fillSale({ isLocked, isEndless = false, ...numbers }: SaleForm): Promise<void> {
    for (const [name, value] of Object.entries(numbers)) {
      await this.page.locator(`.sale input[name=${name}]`).fill(`${value}`);
    }
    await this.page.locator('.sale input[name=isLocked]').setChecked(isLocked);
    await this.page.locator('.sale input[name=isEndless]').setChecked(isEndless);
  }

  /** One of the large figures. */
  async figure(name: 'sold' | 'refused' | 'oversold'): Promise<number> {
    return Number(await this.page.locator(`[data-figure=${name}]`).textContent());
  }

  /** Waits until a figure is at least that. */
  async reach(name: 'sold' | 'refused' | 'oversold', least: number): Promise<void> {
    await until(async () => (await this.figure(name)) >= least);
  }

  /** How many times a buyer was told to come again. */
  async comeAgain(): Promise<number> {
    const text = await this.page.locator('.figures .small').textContent();
    return Number(/(\d+) times told/.exec(text ?? '')?.[1]);
  }

  /** Waits until a node is in this state. */
  async nodeIs(number: number, state: string): Promise<void> {
    await this.page
      .locator(`[data-node="${number}"] [data-state]`, { hasText: state })
      .waitFor({ timeout: PATIENCE });
  }

  /** How much later than at once a node answers, in ms; 0 where the page shows none. */
  async latency(number: number): Promise<number> {
    const text = await this.page.locator(`[data-node="${number}"] .facts`).textContent();
    return Number(/([\d.]+) ms/.exec(text ?? '')?.[1] ?? 0);
  }

  async isWiderThanScreen(): Promise<boolean> {
    return this.page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth');
  }

  /** Rules of accessibility that it breaks, and where. */
  async violations(): Promise<string[]> {
    await this.page.evaluate(axe.source);
    const { violations } = await this.page.evaluate<axe.AxeResults>('axe.run()');
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`));
  }

  /** Whether a switch moves bit by bit. */
  async hasMotion(): Promise<boolean> {
    const knob = `getComputedStyle(document.querySelector('.switch input'), '::after')`;
    return this.page.evaluate<boolean>(`${knob}.transitionDuration !== '0s'`);
  }

  /** Writes a picture of the whole page. */
  async picture(name: string): Promise<void> {
    const folder = join(ROOT, process.env.SCREENSHOTS ?? 'sample-app/screenshots/latest');
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
  }

  async close(): Promise<void> {
    await this.page.context().close();
  }
}

/** Asks until the answer is yes. */
export function until(isSo: () => Promise<boolean>): Promise<void> {
  return eventually(isSo, PATIENCE);
}

/** In ms: for a machine that is very busy. */
const PATIENCE = 40_000;
