import { RedlockModule, RedlockService, type LockNode } from 'nestjs-locked';

import { quick, startPlain } from '../nest/support/applications.js';

/** The service of an application over one node. */
export async function lockOver(node: LockNode, options = {}): Promise<RedlockService> {
  const imports = [RedlockModule.forRoot([node], { ...quick, ...options })];
  return (await startPlain({ imports })).get(RedlockService);
}
