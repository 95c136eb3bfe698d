// Code of the guides as it stands there: what is copied into applications has to be right.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileFunction } from 'node:vm';

import ts from 'typescript';

const guides = join(import.meta.dirname, '../../docs');

/**
 * What a guide's block of TypeScript exports.
 * @param modules What it may import, by name.
 * @param index Which block of the guide it is.
 */
export function loadGuide(
  file: string,
  modules: Readonly<Record<string, object>>,
  index = 0,
): unknown {
  const blocks = [...readFileSync(join(guides, file), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)];
  const { outputText } = ts.transpileModule(blocks[index]?.[1] ?? '', {
    compilerOptions: {
      module: ts.ModuleKind.CommonJS,
      target: ts.ScriptTarget.ES2022,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
    },
  });
  const exported = {};
  // Reflect is the one that keeps the decorators' metadata: each context of node:vm has its own.
  const names = ['require', 'exports', 'Reflect'];
  const run = compileFunction(outputText, names) as (...values: unknown[]) => void;
  run((name: string) => modules[name], exported, Reflect);
  return exported;
}
