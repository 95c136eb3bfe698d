// Whom a node trusts over TLS.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-locked';

import { resolveOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import { createNodes, type NodeInput } from '../../lib/nodes/node-inputs.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { client, server } from '../support/redis-of-spec.js';
import { replyAsSentinel, startPretender } from '../support/servers-of-test.js';

// A busy machine must not decide.
const patient = { nodeTimeout: 2_000, ttl: 10_000 };

describe('TLS', () => {
  const folder = join(import.meta.dirname, 'certificate');
  const certificate = readFileSync(join(folder, 'cert.pem'), 'utf8');
  const files = [
    '--tls-cert-file',
    join(folder, 'cert.pem'),
    '--tls-key-file',
    join(folder, 'key.pem'),
  ];
  let tlsPort: number;

  beforeAll(async () => {
    // The plain port stays: nothing but the certificate may be the reason for a refusal.
    for (let index = 0; index < files.length; index += 2) {
      await client.config('SET', files[index]?.slice(2) ?? '', files[index + 1] ?? '');
    }
    await client.config('SET', 'tls-auth-clients', 'no');
    tlsPort = server.port + 10_000;
    await client.config('SET', 'tls-port', tlsPort);
  });

  async function lockOver(input: NodeInput): Promise<Lock> {
    const nodes = createNodes([input], resolveOptions(patient, 1));
    try {
      await nodes.whenReady(5_000);
      const redlock = new Redlock(nodes.nodes, { ...patient, wait: 0 });
      const lock = await redlock.acquire('r');
      await lock.release();
      await redlock.close();
      return lock;
    } finally {
      await nodes.close();
    }
  }

  it('refuses a server with a certificate that nobody vouches for', async () => {
    await expect(lockOver(`rediss://127.0.0.1:${tlsPort}`)).rejects.toMatchObject({
      code: 'NO_QUORUM',
      message: expect.stringMatching(/self.signed certificate/),
    });
  });

  it('refuses a server that is another than the one named', async () => {
    const tls = { ca: certificate };

    await expect(lockOver({ host: '127.0.0.1', port: tlsPort, tls })).rejects.toMatchObject({
      code: 'NO_QUORUM',
      message: expect.stringMatching(/does not match|altnames/i),
    });
  });

  it('locks over a server that is the one named', async () => {
    const tls = { ca: certificate, servername: 'locks.test' };

    expect(await lockOver({ host: '127.0.0.1', port: tlsPort, tls })).toMatchObject({
      resources: ['r'],
    });
  });

  it('goes by what its options say then, for each connection: certificates are renewed', async () => {
    let ca: readonly string[] = [];
    const tls = {
      servername: 'locks.test',
      get ca() {
        return [...ca];
      },
    };
    const input = { host: '127.0.0.1', port: tlsPort, tls };
    const { close, nodes } = createNodes([input], resolveOptions(patient, 1));
    afterTest(close);
    const state = () => nodes[0]?.status().state;
    await eventually(() => state() === 'down');

    ca = [certificate];

    await eventually(() => state() === 'up');
  });

  it('finds its server by a Sentinel that speaks TLS and wants a password of its own', async () => {
    const key = readFileSync(join(folder, 'key.pem'));
    let isKnown = false;
    const { address } = await startPretender(
      (words) => {
        isKnown ||= words.includes('of the Sentinel');
        const isRefused = words.includes('sentinel') && !isKnown;
        return isRefused ? '-NOAUTH Authentication required.\r\n' : replyAsSentinel(words, tlsPort);
      },
      { cert: certificate, key },
    );
    const tls = { ca: certificate, servername: 'locks.test' };
    const master = { name: 'main', tls, enableTLSForSentinelMode: true };
    const plain = { ...master, sentinels: [address] };
    const secret = { sentinelTLS: tls, sentinelPassword: 'of the Sentinel' };

    await expect(lockOver(plain)).rejects.toThrow('Connection is closed');
    await expect(lockOver({ ...plain, sentinelTLS: tls })).rejects.toThrow('NOAUTH');
    expect(await lockOver({ ...plain, ...secret })).toMatchObject({ resources: ['r'] });
  });

  it.each(['?rejectUnauthorized=false', '?tls=false', '?ssl_cert_reqs=none', '?family=0&tls=no'])(
    'cannot be weakened by what stands in a URL: %s',
    (query) => {
      expect(() => createNodes([`rediss://127.0.0.1:1${query}`], resolveOptions({}, 1))).toThrow(
        TypeError,
      );
    },
  );
});
