/**
 * The value of an option of a command: one that looks at nothing is no run without a failure.
 * @throws RangeError naming the option, unless it is a whole number of at least `least`.
 */
export function wholeNumber(option: string, text: string, least = 1): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new RangeError(
    `Expected --${option} to be a whole number of at least ${least}, got ${text}`,
  );
}
