// Checks of what an option's value may be. Each error names the option, its rule and the value.

/** @throws TypeError */
export function checkObject(name: string, value: unknown): void {
  if (isObject(value) && !Array.isArray(value)) return;
  throw new TypeError(`Expected ${name} to be an object, got ${describeSafely(value)}`);
}

/** Hides what a string says: given in place of nodes or options it may be a URL with a password. */
export function describeSafely(value: unknown): string {
  return typeof value === 'string' ? 'a string' : describe(value);
}

/**
 * Refuses a name that is none of `known`: the compiler lets extra ones pass, and a misspelt option
 * would have no effect. @throws TypeError that lists `known`.
 */
export function checkNames(what: string, given: object, known: object): void {
  // With what it inherits: a signal in place of the options has no names of its own.
  for (const name in given) checkName(what, name, known);
}

/** As {@link checkNames}, for one name. @throws TypeError */
export function checkName(what: string, name: unknown, known: object): void {
  // An array of one name would pass for the name, and have no effect.
  if (typeof name === 'string' && Object.hasOwn(known, name)) return;
  const names = Object.keys(known).join(', ');
  throw new TypeError(`Expected ${what} (${names}), got ${describe(name)}`);
}

/**
 * A copy of `given` that also has what its class gives by getters, and what it inherits: a spread
 * would leave these out, and options would have no effect. @throws TypeError
 */
export function membersOf<T extends object>(name: string, given: T): T {
  checkObject(name, given);
  const members = { ...given };
  let owner = Reflect.getPrototypeOf(given);
  while (owner !== null) {
    const base = Reflect.getPrototypeOf(owner);
    // What all objects descend from, in whichever realm, is nobody's option.
    if (base === null) break;
    const descriptors = Object.entries(Object.getOwnPropertyDescriptors(owner));
    for (const [key, descriptor] of descriptors) {
      const isMember = descriptor.get !== undefined || descriptor.enumerable === true;
      if (isMember && !(key in members)) Object.assign(members, { [key]: Reflect.get(given, key) });
    }
    owner = base;
  }
  return members;
}

/** @throws TypeError */
export function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw wrongType(name, 'true or false', value);
}

/** @throws TypeError */
export function checkText(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw wrongType(name, 'a non-empty string', value);
}

/** A number of whole ms; `note` says what sets `max`. @throws TypeError, RangeError */
export function checkInteger(
  name: string,
  value: unknown,
  min: number,
  max: number,
  note = '',
): number {
  if (typeof value !== 'number') throw wrongType(name, 'a number of ms', value);
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new RangeError(
      `Expected ${name} to be an integer from ${min} to ${max}${note} ms, got ${value}`,
    );
  }
  return value;
}

/** @throws TypeError, RangeError */
export function checkNumber(name: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number') throw wrongType(name, 'a number', value);
  // Written so that NaN is refused too.
  if (!(value >= min && value <= max)) {
    throw new RangeError(`Expected ${name} to be from ${min} to ${max}, got ${value}`);
  }
  return value;
}

/** The error for a `value` that is not what `name` has to be by its `rule`. */
export function wrongType(name: string, rule: string, value: unknown): TypeError {
  return new TypeError(`Expected ${name} to be ${rule}, got ${describe(value)}`);
}

/** A value as an error message shows it: short, and without running the value's own code. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  return String(value);
}

/** Whether `value` is an object with all of these methods. */
export function hasMethods<Name extends string>(
  value: unknown,
  names: readonly Name[],
): value is Record<Name, () => unknown> {
  return isObject(value) && names.every((name) => typeof value[name] === 'function');
}

/** Whether `value` is an object whose properties can be looked at; a function is not. */
export function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null;
}
