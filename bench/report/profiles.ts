// Where the CPU time of the candidates went: a table of the profiles in a folder.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { catalogue, isCandidateName } from '../candidates/catalogue.js';

/** The part of a `.cpuprofile` that is read: how often a function was seen running. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly callFrame: { readonly functionName: string; readonly url: string };
    readonly hitCount?: number;
  }[];
}

type Frame = CpuProfile['nodes'][number]['callFrame'];

/** A function belongs to the first part that matches. */
const parts: readonly (readonly [title: string, fits: (frame: Frame) => boolean])[] = [
  ['garbage collection', ({ functionName }) => functionName === '(garbage collector)'],
  ['writes to sockets', ({ functionName, url }) => url === '' && functionName.startsWith('write')],
  [
    'ioredis',
    ({ url }) => /node_modules\/(@?ioredis|standard-as-callback|denque|redis-)/.test(url),
  ],
  ['the library', ({ url }) => /node_modules|dist\/esm|bench\/candidates/.test(url)],
  ['the bench', ({ url }) => url.startsWith('file:')],
  ['Node', () => true],
];

/** The share of each part in the time when the process was not idle, in %. */
export function sharesOf(profiles: readonly CpuProfile[]): ReadonlyMap<string, number> {
  const hits = new Map(parts.map(([title]) => [title, 0]));
  let all = 0;
  for (const { callFrame, hitCount = 0 } of profiles.flatMap(({ nodes }) => nodes)) {
    if (callFrame.functionName === '(idle)') continue;
    const [title = ''] = parts.find(([, fits]) => fits(callFrame)) ?? [];
    hits.set(title, (hits.get(title) ?? 0) + hitCount);
    all += hitCount;
  }
  return new Map([...hits].map(([title, count]) => [title, (100 * count) / Math.max(1, all)]));
}

/** Writes `profiles.md` beside the profiles: a row per candidate, all its processes together. */
export function reportProfiles(folder: string): void {
  const byCandidate = new Map<string, CpuProfile[]>();
  for (const file of readdirSync(folder)) {
    const [, candidate] = /^(.+)-\d+\.cpuprofile$/.exec(file) ?? [];
    if (candidate === undefined || !isCandidateName(candidate)) continue;
    const profile = JSON.parse(readFileSync(join(folder, file), 'utf8')) as CpuProfile;
    const { label } = catalogue[candidate];
    byCandidate.set(label, [...(byCandidate.get(label) ?? []), profile]);
  }
  const lines = [...byCandidate].map(([label, profiles]) => {
    const shares = [...sharesOf(profiles).values()].map((share) => `${share.toFixed(0)} %`);
    return `| ${[label, ...shares].join(' | ')} |`;
  });
  const head = ['| |', ...parts.map(([title]) => ` ${title} |`)].join('');
  const rule = `|---|${'--:|'.repeat(parts.length)}`;
  writeFileSync(join(folder, 'profiles.md'), `${[head, rule, ...lines].join('\n')}\n`);
}
