/** Keeps the process busy: for `duration` ms it does nothing else. */
export function blockFor(duration: number): void {
  const until = performance.now() + duration;
  while (performance.now() < until);
}
