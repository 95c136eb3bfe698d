// Statistics over samples.

/** What is kept of many latencies. */
export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** One figure over several rounds. */
export interface Figure {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** One per round, in the order of the rounds. */
  readonly samples: readonly number[];
}

/** Of no values, all is NaN. */
export function distributionOf(values: readonly number[]): Distribution {
  const sorted = Float64Array.from(values).sort();
  const sum = sorted.reduce((total, value) => total + value, 0);
  return {
    count: sorted.length,
    mean: sum / sorted.length,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    max: sorted.at(-1) ?? NaN,
  };
}

/** Of no samples, all is NaN. Samples that are NaN are not counted. */
export function figureOf(samples: readonly number[]): Figure {
  const sorted = Float64Array.from(samples.filter((sample) => !Number.isNaN(sample))).sort();
  const middle = sorted.length / 2;
  const median = ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
  return { median, min: sorted[0] ?? NaN, max: sorted.at(-1) ?? NaN, samples };
}

/** The ratio, taken round by round, so that a disturbance of both in one round cancels out. */
export function ratioOf(numerator: Figure, denominator: Figure): Figure {
  const ratios = numerator.samples.map((sample, round) => {
    return sample / (denominator.samples[round] ?? NaN);
  });
  return figureOf(ratios);
}

function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? NaN;
}
