interface BarProps {
  readonly label: string;
  readonly kind: 'held' | 'warn' | 'good';
  /** In ms. */
  readonly value: number;
  readonly max: number;
}

/** A bar for time that runs down; more than `max` is shown as full. */
export function Bar({ label, kind, value, max }: BarProps) {
  return (
    <div
      class={`bar ${kind}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.round(max)}
      aria-valuenow={Math.round(Math.min(value, max))}
      aria-valuetext={inSeconds(value)}
    >
      <span style={{ inlineSize: `${Math.min(100, (value / max) * 100)}%` }} />
    </div>
  );
}

/** The same time in words. */
export function inSeconds(value: number): string {
  return `${(value / 1_000).toFixed(1)} s`;
}
