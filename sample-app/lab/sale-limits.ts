/** The ranges of a sale's numbers. */
export const saleLimits = {
  stock: { min: 1, max: 10_000 },
  buyers: { min: 1, max: 20_000 },
  replicas: { min: 1, max: 4 },
  section: { min: 1, max: 1_000 },
} as const;

/** How many buyers one replica serves at once. */
export const COUNTERS = 4;
