// A process that was busy has not listened: a pause of its own is no silence of its servers.
import { describe, expect, it } from '@jest/globals';

import { blockFor } from '../support/block-for.js';
import { acquire, requestFor } from '../support/node-harness.js';
import {
  expectNoUnhandledRejections,
  IMPATIENT,
  inspectMany,
  MANY,
  PATIENT,
  sent,
  startNode,
  startNodes,
  startServer,
} from '../support/servers-of-test.js';

expectNoUnhandledRejections();

describe('a server that hangs (SIGSTOP)', () => {
  it('is not what a server is taken for that answers while this process is busy', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, PATIENT);

    for (let round = 0; round < 2; round += 1) {
      const inspected = inspectMany(node, MANY);
      await sent();
      blockFor(500);
      await inspected;
    }

    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is not what a server is taken for whose answer waits until this process listens', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    const first = acquire(node, requestFor({ resources: ['first'] }));
    await sent();

    // Longer than a server may be silent before it is suspended, and before it is disconnected.
    blockFor(400);
    const second = acquire(node, requestFor({ resources: ['second'] }));

    expect([(await first).vote, (await second).vote]).toEqual(['granted', 'granted']);
    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is not what a server is taken for that greets a process busy with its start', async () => {
    const server = await startServer();
    const { log } = startNodes([server.url], IMPATIENT);
    await sent();

    // Longer than a connection may take to be made.
    blockFor(400);
    await log.until(({ status: { state } }) => state !== 'connecting');

    expect(log.messages).toEqual(['Connected.']);
  });

  it('is judged by the node alone, whatever socketTimeout its ioredis options have', async () => {
    const { port } = await startServer();
    const { log, node } = await startNode({ port, socketTimeout: 100 }, IMPATIENT);
    const acquired = acquire(node, requestFor());
    await sent();

    // ioredis would look at its timer before it reads what has arrived.
    blockFor(200);

    expect((await acquired).vote).toBe('granted');
    expect(log.events.map(({ status }) => status.state)).toEqual(['up']);
  });

  it('is found out by a process, too, that pauses again and again', async () => {
    const server = await startServer();
    const { log, node } = await startNode(server.url, IMPATIENT);
    server.freeze();
    const acquired = acquire(node, requestFor());

    for (let pause = 0; pause < 100 && node.status().state !== 'down'; pause += 1) {
      await sent();
      blockFor(50);
    }

    expect(await acquired).toMatchObject({ vote: 'failed', mayHold: true });
    expect(log.events.map(({ status }) => status.state)).toEqual(['up', 'suspended', 'down']);
    expect(log.messages).toContainEqual(expect.stringMatching(/^silent for 3\d\d ms$/));
  });
});
