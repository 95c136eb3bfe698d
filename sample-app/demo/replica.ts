import { fileURLToPath } from 'node:url';

import { BoundProcess } from '../infrastructure/bound-process.js';

/** The built application as a process of its own. */
export interface Replica {
  readonly url: string;
  /** Ends it as an orchestrator does, and resolves when it is gone. */
  stop(): Promise<void>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
}

export interface ReplicaOptions {
  readonly nodes: readonly string[];
  readonly store: string;
  readonly isLocked: boolean;
  /** The file that Node runs. @default this build's */
  readonly main?: string;
}

/** Starts a replica on a port that the system chooses, and resolves when it listens. */
export async function startReplica({
  nodes,
  store,
  isLocked,
  main = fileURLToPath(new URL('../main.js', import.meta.url)),
}: ReplicaOptions): Promise<Replica> {
  const child = new BoundProcess(process.execPath, [main], {
    ...process.env,
    PORT: '0',
    REDIS_NODES: nodes.join(','),
    STORE_URL: store,
    LOCKS: isLocked ? 'on' : 'off',
  });
  const [, url = ''] = await child.line(/listening on (http:\S+:\d+)/);
  return {
    url,
    stop: () => child.end('SIGTERM'),
    kill: () => child.end('SIGKILL'),
  };
}
