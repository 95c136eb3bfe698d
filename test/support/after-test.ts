import { afterEach } from '@jest/globals';

const endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Ends what a test has begun: runs, and is awaited, when the test is over; last one first. */
export function afterTest(end: () => unknown): void {
  endings.push(end);
}
