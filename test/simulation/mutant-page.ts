import type { Mutant } from './mutant.js';

/** What became of a mutant; `seed` is null where nothing caught it. */
export interface MutantResult {
  readonly seed: number | null;
  readonly check: string | null;
  readonly message: string;
}

/** The text of MUTANTS.md. */
export function describeMutants(
  mutants: readonly Mutant[],
  results: ReadonlyMap<string, MutantResult>,
  seedsMax: number,
): string {
  const killed = mutants.filter(({ name }) => (results.get(name)?.seed ?? null) !== null);
  const rows = mutants.map(({ name, rule }) => {
    const { seed = null, check = null } = results.get(name) ?? {};
    return `| ${name} | ${rule} | ${check ?? 'none'} | ${seed ?? 'survived'} |`;
  });
  return [
    '# Mutants',
    '',
    'Written by `npm run mutants`, not by hand. Each mutant is a broken version of the algorithm:',
    'a small textual patch of a built copy (`mutants.ts`). The simulation runs seeds 1, 2, 3, …, at',
    `most ${seedsMax}, until a checker complains; each of these seeds passes without the patch.`,
    `${killed.length} of ${mutants.length} are caught. With \`--check\` a mutant's seed on this page is tried first.`,
    '',
    'Mutants of a script patch its model, `script-model.ts`; `script-model.spec.ts` holds the model',
    'against the Lua texts on a real server.',
    '',
    '| mutant | PROTOCOL.md section and rule that it breaks | caught by | seed |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

/** The seed by which each mutant is caught, according to MUTANTS.md. */
export function seedsOn(page: string): ReadonlyMap<string, number> {
  const rows = page.matchAll(/^\| (.+?) \|.*\| (\d+) \|$/gm);
  return new Map([...rows].map(([, name = '', seed]) => [name, Number(seed)]));
}
