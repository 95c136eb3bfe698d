// One lab for all tests of a spec file, as redis-of-spec.ts has one server for them.
import { afterAll, beforeAll, expect } from '@jest/globals';
import type { BrowserContextOptions } from 'playwright-core';

import { afterTest } from './after-test.js';
import { Lab } from './lab.js';
import type { LabPage } from './lab-page.js';

/** A lab that is this spec file's alone. What a test breaks in it, the test heals. */
export let scene: Lab;

beforeAll(async () => {
  scene = await Lab.start();
});

/** A page of {@link scene} that ends with the test, and then has had nothing to complain about. */
export async function openPage(options: BrowserContextOptions = {}): Promise<LabPage> {
  const page = await scene.open(options);
  afterTest(async () => {
    await page.close();
    expect(page.errors).toEqual([]);
  });
  return page;
}

afterAll(() => scene.stop());
