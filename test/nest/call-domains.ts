// The lock domains of calls at random: two in each of two applications, all over the same nodes.
import type { ModuleMetadata } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { getRedlockToken, RedlockModule, type RedlockService } from 'nestjs-locked';

import type { Scene } from '../core/scene.js';
import { quick, startPlain } from './support/applications.js';

export const DOMAINS = ['default', 'other'] as const;

export type DomainName = (typeof DOMAINS)[number];

const APPLICATIONS = ['first', 'second'];

const settings = { ...quick, quarantine: false, shutdownTimeout: 200 };

export interface Domain {
  readonly name: DomainName;
  readonly application: TestingModule;
  readonly redlock: RedlockService;
  /** For findings. */
  readonly label: string;
}

/** Starts the applications, with all of their domains. */
export async function startDomains(
  { environment, nodes }: Scene,
  metadata: ModuleMetadata,
): Promise<Domain[]> {
  const imports = DOMAINS.map((name) =>
    RedlockModule.forRoot(nodes, { ...settings, environment, name }),
  );
  const started = APPLICATIONS.map(async (each) => {
    const application = await startPlain({ ...metadata, imports });
    return DOMAINS.map((name) => {
      const redlock = application.get<RedlockService>(getRedlockToken(name));
      return { name, application, redlock, label: `${name} domain of the ${each} application` };
    });
  });
  return (await Promise.all(started)).flat();
}
