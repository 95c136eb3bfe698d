/** The time of day where the browser is, as `13:05:09.042`. */
export function wallTime(at: number): string {
  const milliseconds = String(at % 1_000).padStart(3, '0');
  return `${new Date(at).toTimeString().slice(0, 8)}.${milliseconds}`;
}
