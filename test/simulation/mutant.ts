// Broken versions of the algorithm. Each is a textual patch of the sources, applied to a built
// copy: a simulation that finds nothing wrong with one of them proves nothing.

/** One text of one file, which must occur exactly once, and what stands there instead. */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A small change that breaks a rule. */
export interface Mutant {
  readonly name: string;
  /** The rule of PROTOCOL.md that it breaks. */
  readonly rule: string;
  readonly patches: readonly Patch[];
}

/** A patch of a file of the core. */
export function core(file: string, find: string, replace: string): Patch {
  return { file: `lib/core/${file}.ts`, find, replace };
}

/** No rule is broken: a process makes one first attempt at a time, so that calls wait for room. */
export const narrow = core(
  'first-attempts',
  'RESOURCES_AT_ONCE_MAX = 2_048;',
  'RESOURCES_AT_ONCE_MAX = 1;',
);

/** Scripts are mutated in their model; script-model.spec.ts ties that to the Lua texts. */
export function script(find: string, replace: string): Patch {
  return { file: 'test/simulation/script-model.ts', find, replace };
}

/** Terms that begin now, in place of `terms`, which began before the round was sent. */
export function laterTerms(terms: string): string {
  const now = 'this.#ensemble.environment.now()';
  return `{ ...${terms}, startedAt: ${now}, until: ${terms}.until + ${now} - ${terms}.startedAt }`;
}
