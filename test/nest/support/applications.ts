// Real Nest applications, closed after each test.
import type { INestApplication, LoggerService, ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  MemoryNode,
  RedlockModule,
  RedlockService,
  type NodeInput,
  type RedlockModuleOptions,
} from 'nestjs-locked';

import { afterTest } from '../../support/after-test.js';

const silent: LoggerService = { log: () => {}, warn: () => {}, error: () => {} };

/** Lines that Nest logs: level, message, context. */
export class Log implements LoggerService {
  readonly lines: unknown[][] = [];

  log(...line: unknown[]): void {
    this.lines.push(['log', ...line]);
  }

  warn(...line: unknown[]): void {
    this.lines.push(['warn', ...line]);
  }

  error(...line: unknown[]): void {
    this.lines.push(['error', ...line]);
  }
}

/** Options under which a test that fails does so soon. */
export const quick: RedlockModuleOptions = { wait: 100, retryDelay: { min: 5, max: 10 } };

/** Three memory nodes: a quorum of two. */
export function threeNodes(): MemoryNode[] {
  return ['a', 'b', 'c'].map((name) => new MemoryNode({ name }));
}

/** An application context of the given providers over memory nodes. */
export async function startModule(
  metadata: ModuleMetadata,
  options: RedlockModuleOptions = {},
  nodes: readonly NodeInput[] = threeNodes(),
): Promise<TestingModule> {
  const imports = [RedlockModule.forRoot(nodes, { ...quick, ...options })];
  return startPlain({ ...metadata, imports: [...imports, ...(metadata.imports ?? [])] });
}

/** The service of an application over memory nodes. */
export async function startService(options: RedlockModuleOptions = {}): Promise<RedlockService> {
  return (await startModule({}, options)).get(RedlockService);
}

/** An application context of exactly this. */
export async function startPlain(
  metadata: ModuleMetadata,
  logger: LoggerService = silent,
): Promise<TestingModule> {
  const module = await Test.createTestingModule(metadata).setLogger(logger).compile();
  await module.init();
  afterTest(() => module.close());
  return module;
}

/** An HTTP server of the given controllers over memory nodes. */
export async function startServer(
  metadata: ModuleMetadata,
  options: RedlockModuleOptions = {},
  nodes: readonly NodeInput[] = threeNodes(),
  logger: LoggerService = silent,
): Promise<{ application: INestApplication; url: string }> {
  const imports = [RedlockModule.forRoot(nodes, { ...quick, ...options })];
  return startPlainServer(
    { ...metadata, imports: [...imports, ...(metadata.imports ?? [])] },
    { logger },
  );
}

/** An HTTP server of exactly this. */
export async function startPlainServer(
  metadata: ModuleMetadata,
  {
    logger = silent,
    // Connections that clients keep open must not hold up the close.
    forceCloseConnections = true,
    configure,
  }: {
    readonly logger?: LoggerService;
    readonly forceCloseConnections?: boolean;
    readonly configure?: (application: INestApplication) => void;
  } = {},
): Promise<{ application: INestApplication; url: string }> {
  const module = await Test.createTestingModule(metadata).setLogger(logger).compile();
  const application = module.createNestApplication({ forceCloseConnections });
  configure?.(application);
  await application.listen(0, '127.0.0.1');
  afterTest(() => application.close());
  return { application, url: await application.getUrl() };
}
