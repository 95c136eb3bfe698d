// Runs the sample app as the README says (`npm start`, no Redis), sends requests, and stops it while
// it is at work: it has to finish that.
import { setTimeout } from 'node:timers/promises';

import { startSampleApp, within } from './sample-app.mjs';

/** In ms, for requests that hang: brand-new nodes alone keep the first waiting for 5 s. */
const TIMEOUT = 60_000;

async function ask(url, options) {
  const answer = await fetch(url, { ...options, signal: AbortSignal.timeout(TIMEOUT) });
  const text = await answer.text();
  const [line] = text.split('\n');
  console.log(`  ${options?.method ?? 'GET'} ${new URL(url).pathname}: ${answer.status} ${line}`);
  if (!answer.ok) throw new Error(`Expected a 2xx status, got ${answer.status}.`);
  return text;
}

const { url, ended, signal } = await startSampleApp();
await ask(`${url}/inventory/apple/reserve`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ quantity: 1 }),
});
await ask(`${url}/locks/status`);
const page = await ask(`${url}/`, { headers: { accept: 'text/html' } });
if (!page.includes('<title>Lock lab')) throw new Error('Expected a browser to get the page.');

const job = ask(`${url}/slow/job?seconds=3`, { method: 'POST' });
await within(TIMEOUT, 'begin a job', untilHeld('slow:job'));
signal('SIGTERM');
await job;
await within(TIMEOUT, 'stop after SIGTERM', ended);
console.log('  finished its job and stopped after SIGTERM');

async function untilHeld(resource) {
  while (!(await ask(`${url}/locks/status?resource=${resource}`)).includes('"held"')) {
    await setTimeout(100);
  }
}
