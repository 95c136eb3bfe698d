// For tests that start processes: Node runs no TypeScript, and jest compiles for itself alone.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import typescript from 'typescript';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Compiles folders of the project into a temporary one, where they can be run. */
export function compile(...folders: readonly string[]): string {
  const target = mkdtempSync(join(tmpdir(), 'nestjs-locked-'));
  // The application imports the library by this name and its entry points below it.
  const exports = { '.': './lib/index.js', './*': './lib/*.js' };
  const manifest = { name: 'nestjs-locked', type: 'module', exports };
  writeFileSync(join(target, 'package.json'), JSON.stringify(manifest));
  symlinkSync(join(ROOT, 'node_modules'), join(target, 'node_modules'), 'dir');
  for (const file of folders.flatMap(sourcesBelow)) {
    const output = join(target, file.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(output), { recursive: true });
    const source = readFileSync(join(ROOT, file), 'utf8');
    writeFileSync(output, typescript.transpileModule(source, { compilerOptions }).outputText);
  }
  return target;
}

function sourcesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'))
    .map((file) => join(folder, file));
}

const compilerOptions: typescript.CompilerOptions = {
  target: typescript.ScriptTarget.ES2022,
  module: typescript.ModuleKind.ES2022,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  verbatimModuleSyntax: true,
};
