import { describe } from '../core/resources.js';

/** @throws TypeError naming option, rule and value. */
export function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw new TypeError(`Expected ${name} to be true or false, got ${describe(value)}`);
}
