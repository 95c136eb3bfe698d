import { wrongType } from './option-checks.js';

/** Reserved for keys of the protocol itself: fence records and certificates. */
const RESERVED_PREFIX = 'redlock:';

/**
 * How the keys of the protocol end. Another world on the same nodes may have any prefix, so what
 * comes before these endings may be part of a resource's name here.
 */
const PROTOCOL_KEY = /redlock:(node|rules|fences:(even|odd))$/;

/**
 * The longest name of a resource, in UTF-16 code units. Room for a URL or a few joined ids; every
 * acquisition sends it to every node, so a name taken from a request must not be megabytes long.
 */
const LENGTH_MAX = 512;

/**
 * The most names in one lock, counting duplicates. Room for a large order; while a node's script
 * goes through them the node serves nobody else, so a request must not bring thousands of names.
 */
const COUNT_MAX = 1_000;

const FORM = 'a non-empty string or an array of them';

/**
 * Checks the names of what is to be locked and puts them into the one order that every process
 * uses: without duplicates, sorted by code unit. `origin` names the source in errors.
 * @throws TypeError where there is no name, an empty one, or anything but strings.
 * @throws RangeError where there are more than 1,000 names, or one begins with `redlock:`, has
 *   more than 512 UTF-16 code units, or holds half of a surrogate pair: all names that differ only
 *   in such a half would be the same key.
 */
export function normalizeResources(input: unknown, origin = 'resources'): readonly string[] {
  // Not a literal: ARCHITECTURE.md, "What a lock leaves behind".
  if (!Array.isArray(input)) return Array.of(checkResource(input, origin, FORM));
  if (input.length === 0) {
    throw new TypeError(`Expected ${origin} to name at least one resource, got an empty array`);
  }
  if (input.length > COUNT_MAX) {
    throw new RangeError(
      `Expected ${origin} to name at most ${COUNT_MAX} resources, got ${input.length}; ` +
        'lock one resource that stands for all of them',
    );
  }
  // Not `map`, which passes over the holes of a sparse array.
  const resources = Array.from(input, (name) => checkResource(name, origin, FORM));
  return resources.length === 1 ? resources : [...new Set(resources)].sort();
}

/**
 * Checks one name of what is to be locked; `origin` names its source in errors.
 * @throws TypeError, RangeError as {@link normalizeResources}.
 */
export function checkResource(name: unknown, origin: string, form = 'a non-empty string'): string {
  if (typeof name !== 'string' || name === '') {
    throw wrongType(origin, form, name);
  }
  if (name.length > LENGTH_MAX) {
    throw new RangeError(
      `Expected ${origin} to have at most ${LENGTH_MAX} characters, got ${name.length}; ` +
        `lock a hash of longer names`,
    );
  }
  if (name.startsWith(RESERVED_PREFIX)) {
    throw new RangeError(
      `Expected ${origin} not to begin with "${RESERVED_PREFIX}", which the protocol keeps ` +
        'for itself',
    );
  }
  if (!name.isWellFormed()) {
    throw new RangeError(
      `Expected ${origin} to be well-formed Unicode, got half of a surrogate pair`,
    );
  }
  return name;
}

/**
 * Checks that no name makes a key of the protocol, in any world on the same nodes; `origin` names
 * their source in errors.
 * @throws RangeError where a name, behind the prefix, ends as such a key does.
 */
export function checkKeys(resources: readonly string[], keyPrefix: string, origin: string): void {
  if (!resources.some((resource) => PROTOCOL_KEY.test(keyPrefix + resource))) return;
  throw new RangeError(
    `Expected ${origin}, after the keyPrefix, not to end with "redlock:node", "redlock:rules", ` +
      '"redlock:fences:even" or "redlock:fences:odd", which the protocol keeps for itself',
  );
}

/**
 * Tag of a template that names a resource. It makes the same name as the template without the tag,
 * but checks each value first: a plain template makes `sku:undefined` of a value that is missing,
 * and then all calls that lack it lock the same. TypeScript refuses values that may be missing.
 * @example
 * ```ts
 * @Locked((sku: string) => resource`sku:${sku}`)
 * ```
 * @throws TypeError for a value that is not a non-empty string, a finite number or a bigint.
 */
export function resource(
  texts: TemplateStringsArray,
  ...values: readonly (string | number | bigint)[]
): string {
  const wrong = values.findIndex((value) => !isNamePart(value));
  if (wrong < 0) return String.raw({ raw: texts }, ...values);
  const template = `resource\`${texts.join('${…}')}\``;
  const rule = 'a non-empty string, a finite number or a bigint';
  throw wrongType(`value ${wrong + 1} of ${template}`, rule, values[wrong]);
}

function isNamePart(value: unknown): boolean {
  if (typeof value === 'string') return value !== '';
  return typeof value === 'bigint' || Number.isFinite(value);
}
