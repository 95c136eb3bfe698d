// The code base's own rules, where no linter says them.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import { documents, filesBelow } from './support/project-files.js';

const root = join(import.meta.dirname, '..');
const manifest = JSON.parse(read('package.json')) as {
  readonly scripts: object;
  readonly exports: Record<string, string | { import: { default: string } }>;
  readonly peerDependencies: object;
  readonly peerDependenciesMeta: object;
};
/** What commands leave, and nobody commits. */
const made = ['docs/api', 'sample-app/screenshots/latest/'];

describe('the library', () => {
  const sources = filesBelow('lib').filter((file) => file.endsWith('.ts'));

  it.each(sources)('%s is a kebab-case file of at most 100 columns', (file) => {
    const lines = read(file).split('\n');

    expect(basename(file)).toMatch(/^[a-z0-9]+([.-][a-z0-9]+)*\.ts$/);
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
  });

  it('loads no optional peer from its main entry point', () => {
    const reached = filesReachedFrom('lib/index.ts');
    const optionalPeers = Object.keys(manifest.peerDependenciesMeta);

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

    expect([...names].filter((name) => !(String(name) in manifest.peerDependencies))).toEqual([]);
  });

  it('has no run-time dependency beside its peers', () => {
    const kinds = Object.keys(manifest).filter((key) => /dependencies$/i.test(key));

    expect(kinds).toEqual(['peerDependencies', 'devDependencies']);
  });

  it.each(entryPoints())('has a size, an API report, a reference and a matrix for %s', (entry) => {
    const name = entry === 'index' ? 'nestjs-locked' : `nestjs-locked/${entry}`;

    expect(read('scripts/check-size.mjs')).toContain(`"* from './${entry}.js'"`);
    expect(read('scripts/check-api.mjs')).toContain(`'${entry}'`);
    expect(read('typedoc.json')).toContain(`"lib/${entry}.ts"`);
    expect(read('test/matrix/application.ts')).toContain(`from '${name}'`);
  });

  it.each(sources)('%s leaves nothing for later', (file) => {
    expect(read(file)).not.toMatch(/TODO|FIXME|XXX|@ts-ignore|@ts-expect-error/);
  });

  it('has every file in ARCHITECTURE.md', () => {
    const rows = read('ARCHITECTURE.md').matchAll(/^\| (?:`[\w/-]+`: )?`([a-z0-9.-]+\.ts)` \|/gm);
    const named = ['index.ts', ...[...rows].map(([, name]) => name)];

    expect(named.sort()).toEqual(sources.map((file) => basename(file)).sort());
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
  const files = ['test', 'sample-app', 'examples']
    .flatMap(filesBelow)
    .filter((file) => file.endsWith('.ts'));
  const matches = (pattern: RegExp): string[] =>
    files.flatMap((file) => (read(file).match(pattern) ?? []).map((text) => `${file}: ${text}`));

  it('run all of their cases', () => {
    expect(matches(/\b(it|test|describe)\.(\w+\.)?(skip|only|todo|failing)\b/g)).toEqual([]);
    expect(matches(/\b[fx](it|test|describe)(\.each\b|\()/g)).toEqual([]);
  });

  it('state facts, by their names', () => {
    expect(matches(/^[^/*\n]*['"`].*\bshould\s.*/gm)).toEqual([]);
  });
});

describe('the documents', () => {
  const shipped = shippedFiles();
  const isSample = (file: string): boolean => file.startsWith('sample-app/');

  it.each(documents)('%s links to files that exist', (file) => {
    const targets = [...linksOf(file), ...picturesOf(file)];

    expect(targets.filter((target) => !existsSync(join(root, target)))).toEqual([]);
  });

  it.each(documents)('%s links to headings that exist', (file) => {
    const targets = [...read(file).matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)];

    const isThere = ([, path, anchor]: readonly string[]): boolean =>
      anchorsOf(path === '' ? file : join(dirname(file), path ?? '')).includes(anchor ?? '');

    expect(targets.filter((target) => !isThere(target)).map(([target]) => target)).toEqual([]);
  });

  it('have the headings that messages of the library name', () => {
    const messages = filesBelow('lib').filter((file) => file.endsWith('.ts'));
    const named = messages.flatMap((file) => [
      ...read(file).matchAll(/(docs\/[\w-]+\.md)#([\w-]+)/g),
    ]);

    expect(named.length).toBeGreaterThan(3);
    for (const [, path, anchor] of named) expect(anchorsOf(path ?? '')).toContain(anchor);
  });

  it('are shipped with the library and the examples for tests, and nothing else is', () => {
    const others = ['LICENSE', 'package.json', 'test/simulation/MUTANTS.md'];
    const isExpected = (file: string): boolean =>
      /^(dist\/(cjs|esm)|examples\/testing)\//.test(file) ||
      [...documents, ...others].includes(file);

    expect(shipped).toEqual(expect.arrayContaining(documents.filter((file) => !isSample(file))));
    expect(shipped.filter((file) => !isExpected(file))).toEqual([]);
  });

  // Pictures stay behind, for their size; their text stands in for them.
  it('link, those that are shipped, to what is shipped', () => {
    const isShipped = (target: string): boolean =>
      shipped.some((file) => file === target || file.startsWith(`${target}/`));
    const links = documents
      .filter((file) => !isSample(file))
      .flatMap((file) => linksOf(file).map((target) => ({ file, target })));

    expect(links.filter(({ target }) => !isShipped(target))).toEqual([]);
  });

  it.each(documents)('%s names files and scripts that exist', (file) => {
    const text = read(file);
    const folders = 'api|bench|docs|examples|lib|sample-app|scripts|test';
    const paths = [...text.matchAll(new RegExp(`\`((?:${folders})/[\\w./-]+)\``, 'g'))];
    const names = [...text.matchAll(/npm run (?:--silent )?([\w:-]+)/g)];

    const isGone = ([, path = '']: readonly string[]): boolean =>
      !existsSync(join(root, path)) && !made.includes(path);

    expect(paths.filter(isGone).map(([, path]) => path)).toEqual([]);
    expect(names.filter(([, name]) => !(String(name) in manifest.scripts))).toEqual([]);
  });

  it('name something that shows each promise, or say that nothing does', () => {
    const [, table = ''] = read('docs/SAFETY.md').split('| shown by |\n');
    const rows = table.split('\n\n')[0]?.match(/^\| .*$/gm) ?? [];
    const isShown = /(`(test|sample-app)\/[^|]*|not covered: [^|]+) \|$/;

    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((row) => !isShown.test(row))).toEqual([]);
  });

  it('name a test for each symptom, by its name', () => {
    const [, ...rows] = read('docs/SYMPTOMS.md').match(/^\| .*$/gm) ?? [];
    const isThere = (row: string): boolean => {
      const [, file, name] = /\| `([^|]*)` \| ([^|]+) \|$/.exec(row) ?? [];
      return file !== undefined && read(file).includes(name ?? '');
    };

    expect(rows.length).toBeGreaterThan(30);
    expect(rows.filter((row) => !isThere(row))).toEqual([]);
  });
});

/** The names of what package.json lets others import. */
function entryPoints(): string[] {
  return Object.values(manifest.exports).flatMap((target) =>
    typeof target === 'string' ? [] : [basename(target.import.default, '.js')],
  );
}

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

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
