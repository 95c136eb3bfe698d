// Nodes that Sentinels name, some of which hang.
import { describe, expect, it } from '@jest/globals';

import { eventually } from '../support/eventually.js';
import {
  expectNoUnhandledRejections,
  IMPATIENT,
  replyAsSentinel,
  startNodes,
  startPretender,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

describe('a Sentinel that hangs', () => {
  const startHung = () => startPretender(() => null);

  it('is left alone soon after the node is closed', async () => {
    const { address, sockets } = await startHung();
    const { close, log } = startNodes([{ sentinels: [address], name: 'main' }], IMPATIENT);
    await log.untilState('down');

    await close();
    const open = sockets.size;

    expect(open).toBeGreaterThan(0);
    await eventually(() => sockets.size === 0, 5_000);
  });

  /** Two Sentinels, the first of which hangs, and a server that the other one names. */
  async function startSentinels() {
    const server = await startServer();
    const hung = await startHung();
    const works = await startPretender((words) => replyAsSentinel(words, server.port));
    return { hung, sentinels: [hung.address, works.address] };
  }

  it('does not keep the next one from being asked', async () => {
    const { sentinels } = await startSentinels();

    const { log } = startNodes([{ sentinels, name: 'main' }]);
    const { status } = await log.until(({ status: { state } }) => state !== 'connecting');

    expect(status.state).toBe('up');
  });

  it('does not, either, where it takes longer to give it up than a connection may', async () => {
    const { hung, sentinels } = await startSentinels();

    const { node } = startNodes([{ sentinels, name: 'main' }], IMPATIENT);

    await eventually(() => node.status().state === 'up', 10_000);
    await eventually(() => hung.sockets.size === 0, 5_000);
  });
});
