// Transpiles the simulation and the code under it to plain ESM, so that node runs it at full
// speed without jest; and copies of it with a patch, for the mutants.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const cache = join(root, 'node_modules', '.cache', 'nestjs-locked-simulation');

/**
 * The folder of a build in which each patch has replaced one text of one file. The text must
 * occur exactly once: a patch that does not fit any more is an error, not a mutant that survives.
 */
export async function build(patches = []) {
  const files = sourceFiles().map((path) => ({ path, text: readFileSync(path, 'utf8') }));
  for (const patch of patches) applyPatch(files, patch);
  const hash = createHash('sha1');
  for (const { path, text } of files) hash.update(`${path}\0${text}\0`);
  const target = join(cache, hash.digest('hex').slice(0, 16));
  if (!existsSync(target)) await transpile(files, target);
  return target;
}

/** @throws Error where the patch's text does not occur exactly once in its file. */
export function applyPatch(files, { file, find, replace }) {
  const source = files.find(({ path }) => relative(root, path) === file);
  if (source === undefined) throw new Error(`The patch names ${file}, which is not there`);
  const parts = source.text.split(find);
  if (parts.length !== 2) {
    throw new Error(`The patch of ${file} fits ${parts.length - 1} times, not once:\n${find}`);
  }
  source.text = parts.join(replace);
}

/** All files that a build consists of. */
export function sourceFiles() {
  const folders = [
    'lib/core',
    'lib/nodes',
    'test/simulation',
    'test/simulation/checks',
    'test/simulation/explore',
  ];
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
      .map((name) => join(root, folder, name)),
  );
}

const outputs = new Map();

async function transpile(files, target) {
  const { default: typescript } = await import('typescript');
  const draft = `${target}.${process.pid}`;
  const compilerOptions = {
    target: typescript.ScriptTarget.ES2022,
    module: typescript.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  };
  for (const { path, text } of files) {
    const output = join(draft, relative(root, path).replace(/\.ts$/, '.js'));
    mkdirSync(dirname(output), { recursive: true });
    // Builds of mutants share all files but the patched ones.
    const code =
      outputs.get(text) ?? typescript.transpileModule(text, { compilerOptions }).outputText;
    outputs.set(text, code);
    writeFileSync(output, code);
  }
  writeFileSync(join(draft, 'package.json'), '{ "type": "module" }\n');
  symlinkSync(join(root, 'node_modules'), join(draft, 'node_modules'), 'dir');
  // Another process may have made the same build meanwhile.
  if (existsSync(target)) rmSync(draft, { recursive: true, force: true });
  else renameSync(draft, target);
}
