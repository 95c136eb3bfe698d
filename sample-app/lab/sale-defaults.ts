import type { SaleSettings } from './messages.js';

/** A sale that takes some seconds with a lock, and visibly goes wrong without one. */
export const saleDefaults: SaleSettings = {
  stock: 60,
  buyers: 90,
  replicas: 3,
  section: 80,
  isLocked: true,
  isEndless: false,
};
