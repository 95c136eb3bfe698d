// The code base's own rules, where no linter says them.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';

import { describe, expect, it } from '@jest/globals';

const root = join(import.meta.dirname, '..');
const { scripts, peerDependencies, peerDependenciesMeta } = JSON.parse(read('package.json')) as {
  readonly scripts: object;
  readonly peerDependencies: object;
  readonly peerDependenciesMeta: object;
};
const optionalPeers = Object.keys(peerDependenciesMeta);
/** Where a test run leaves its own, for nobody else. */
const pictures = 'sample-app/screenshots/latest/';

describe('the library', () => {
  const sources = filesBelow('lib').filter((file) => file.endsWith('.ts'));

  it.each(sources)('%s is a kebab-case file of at most 100 columns', (file) => {
    const lines = read(file).split('\n');

    expect(basename(file)).toMatch(/^[a-z0-9]+([.-][a-z0-9]+)*\.ts$/);
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
  });

  it('loads no optional peer from its main entry point', () => {
    const reached = filesReachedFrom('lib/index.ts');

    expect(reached.length).toBeGreaterThan(40);
    expect(
      reached.filter((file) => optionalPeers.some((name) => read(file).includes(`from '${name}'`))),
    ).toEqual([]);
  });

  // A strict package manager lets us load the application's copy of a peer, and of nothing else.
  it('has every package that it loads among its peers', () => {
    const loaded = sources.flatMap((file) => [
      ...withoutComments(read(file)).matchAll(/'(@[\w-]+\/[\w-]+)'|from '([\w-]+)'/g),
    ]);

    const names = new Set(loaded.map(([, scoped, unscoped]) => scoped ?? unscoped));

    expect([...names].filter((name) => !(String(name) in peerDependencies))).toEqual([]);
  });

  it.each(sources)('%s leaves nothing for later', (file) => {
    expect(read(file)).not.toMatch(/TODO|FIXME|XXX|@ts-ignore|@ts-expect-error/);
  });

  it('has every file in ARCHITECTURE.md', () => {
    const architecture = read('ARCHITECTURE.md');

    expect(sources.filter((file) => !architecture.includes(basename(file)))).toEqual([]);
  });

  it('has no file that ARCHITECTURE.md names and that is gone', () => {
    const named = [...read('ARCHITECTURE.md').matchAll(/`([a-z0-9.-]+\.ts)`/g)];
    const existing = [...sources, ...filesBelow('test')].map((file) => basename(file));

    expect(named.map(([, name]) => name).filter((name) => !existing.includes(name ?? ''))).toEqual(
      [],
    );
  });
});

describe('the tests', () => {
  const specs = [...filesBelow('test'), ...filesBelow('sample-app')].filter((file) =>
    file.endsWith('.spec.ts'),
  );

  it.each(specs)('%s runs all of its cases', (file) => {
    expect(read(file)).not.toMatch(/\b(it|test|describe)\.(skip|only|todo)\b|\bx(it|describe)\(/);
  });

  it.each(specs)('%s states facts', (file) => {
    const names = [...read(file).matchAll(/\bit(?:\.each\([^)]*\))?\(\s*['"`](.*?)['"`],/g)];

    expect(names.map(([, name]) => name).filter((name) => /\bshould\b/.test(name ?? ''))).toEqual(
      [],
    );
  });
});

describe('the documents', () => {
  const documents = ['README', 'ARCHITECTURE', 'CONTRIBUTING', 'CHANGELOG', 'SECURITY'];
  // Beside the guides, docs may hold the API reference, which is built.
  const guides = filesBelow('docs').filter((file) => /^docs\/[^/]+\.md$/.test(file));
  const all = [...documents.map((name) => `${name}.md`), ...guides];

  it.each(all)('%s links to files that exist', (file) => {
    const targets = [...linksOf(file), ...picturesOf(file)];

    expect(targets.filter((target) => !existsSync(join(root, target)))).toEqual([]);
  });

  it.each(all)('%s links to headings that exist', (file) => {
    const targets = [...read(file).matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)];

    const isThere = ([, path, anchor]: readonly string[]): boolean =>
      anchorsOf(path === '' ? file : join(dirname(file), path ?? '')).includes(anchor ?? '');

    expect(targets.filter((target) => !isThere(target)).map(([target]) => target)).toEqual([]);
  });

  it('have the headings that messages of the library name', () => {
    const messages = filesBelow('lib').filter((file) => file.endsWith('.ts'));
    const named = messages.flatMap((file) => [
      ...read(file).matchAll(/(docs\/[A-Z-]+\.md)#([a-z-]+)/g),
    ]);

    expect(named.length).toBeGreaterThan(3);
    for (const [, path, anchor] of named) expect(anchorsOf(path ?? '')).toContain(anchor);
  });

  // Pictures stay behind, for their size; their text stands in for them.
  it('link, those that are shipped, to what is shipped', () => {
    const shipped = shippedFiles();
    const isShipped = (target: string): boolean =>
      shipped.some((file) => file === target || file.startsWith(`${target}/`));
    const shippedDocuments = shipped.filter((file) => file.endsWith('.md'));
    const links = shippedDocuments.flatMap((file) =>
      linksOf(file).map((target) => ({ file, target })),
    );

    expect(shippedDocuments).toEqual(expect.arrayContaining(all));
    expect(links.filter(({ target }) => !isShipped(target))).toEqual([]);
  });

  it.each([...all, 'sample-app/README.md'])('%s names files and scripts that exist', (file) => {
    const text = read(file);
    const paths = [...text.matchAll(/`((?:test|sample-app|bench)\/[\w./-]+)`/g)];
    const names = [...text.matchAll(/npm run (?:--silent )?([\w:-]+)/g)];

    const isGone = ([, path = '']: readonly string[]): boolean =>
      !existsSync(join(root, path)) && path !== pictures;

    expect(paths.filter(isGone).map(([, path]) => path)).toEqual([]);
    expect(names.map(([, name]) => name).filter((name) => !(String(name) in scripts))).toEqual([]);
  });

  it('name something that shows each promise', () => {
    const shown = [...read('docs/SAFETY.md').matchAll(/`(?:test|sample-app)\/[\w./-]+`/g)];

    expect(shown.length).toBeGreaterThan(10);
  });

  it('name a test for each symptom, by its name', () => {
    const rows = [...read('docs/SYMPTOMS.md').matchAll(/^\|.*\| `(.*?)` \| (.*?) \|$/gm)];
    const isThere = ([, file, name]: readonly string[]): boolean =>
      read(file ?? '').includes(name ?? '-');

    expect(rows).toHaveLength(34);
    expect(rows.filter((row) => !isThere(row)).map(([row]) => row)).toEqual([]);
  });
});

/** What a document links to in this project, from its root; without pictures. */
function linksOf(file: string): string[] {
  const links = read(file).matchAll(/(?<!!)\[[^[\]]*\]\((?!https?:|#)([^)#]+)/g);
  return [...links].map(([, target]) => join(dirname(file), target ?? ''));
}

/** Where links into a document may lead: what renders Markdown makes these of its headings. */
function anchorsOf(file: string): string[] {
  const headings = read(file)
    .replace(/```[\s\S]*?```/g, '')
    .matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function picturesOf(file: string): string[] {
  const pictures = read(file).matchAll(/!\[[^[\]]*\]\((?!https?:)([^)]+)/g);
  return [...pictures].map(([, target]) => join(dirname(file), target ?? ''));
}

/** What npm takes into the package; of `dist` only what happens to be built. */
function shippedFiles(): string[] {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = spawnSync('npm', args, { cwd: root, encoding: 'utf8' });
  const [{ files }] = JSON.parse(stdout) as [{ files: readonly { path: string }[] }];
  return files.map(({ path }) => path);
}

function filesReachedFrom(entry: string): string[] {
  const reached = new Set([entry]);
  for (const file of reached) {
    for (const [, path] of read(file).matchAll(/from '(\.{1,2}\/[^']+)\.js'/g)) {
      reached.add(join(dirname(file), `${path ?? ''}.ts`));
    }
  }
  return [...reached];
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
    (name) => `${folder}/${name.split(sep).join('/')}`,
  );
}

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
