import type { Infrastructure } from '../infrastructure/infrastructure.js';

/** What the lab runs on. */
export type LabInfrastructure = Pick<Infrastructure, 'nodes' | 'ownNodes' | 'storeUrl'>;

/** Injects the {@link LabInfrastructure}. */
export const LAB_INFRASTRUCTURE = Symbol('LAB_INFRASTRUCTURE');
