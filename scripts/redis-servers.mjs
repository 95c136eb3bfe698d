// Loads the tests' own way to start servers. It is TypeScript, but imports only Node's modules.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import ts from 'typescript';

import { root } from './command.mjs';

const source = readFileSync(join(root, 'test/support/redis-servers.ts'), 'utf8');
const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
const { outputText } = ts.transpileModule(source, { compilerOptions });

export const { startRedisServers } = await import(
  `data:text/javascript,${encodeURIComponent(outputText)}`
);
