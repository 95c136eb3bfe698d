import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import { defineConfig, globalIgnores } from 'eslint/config';
import typescript from 'typescript-eslint';

const environment = 'lib/core/environment.ts';

// Time, timers and randomness enter by environment.ts alone, so that the simulation owns them.
const throughEnvironment = 'Take it from the Environment (lib/core/environment.ts).';
const banned = (names) => names.map((name) => ({ name, message: throughEnvironment }));

/** Layers: imports go down only. `allowed` matches the module names that a folder may import. */
const imports = (allowed, message) => ({
  'no-restricted-imports': ['error', { patterns: [{ regex: `^(?!${allowed})`, message }] }],
});
// Node's own modules, but for the back doors to time and randomness.
const node = 'node:(?!timers|perf_hooks|crypto)';

export default defineConfig(
  globalIgnores(['dist/', 'coverage/', 'docs/api/']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  { rules: { 'max-lines': ['error', 300] } },
  {
    files: ['**/*.{js,mjs,cjs}'],
    languageOptions: {
      globals: Object.fromEntries(
        ['console', 'fetch', 'process', 'setTimeout', 'clearTimeout', 'AbortSignal', 'URL'].map(
          (name) => [name, 'readonly'],
        ),
      ),
    },
  },
  {
    files: ['**/*.{ts,tsx}'],
    extends: [typescript.configs.strictTypeChecked, typescript.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-empty-function': 'off',
      // Nest modules are empty classes.
      '@typescript-eslint/no-extraneous-class': 'off',
      // Nest declares its option bags as classes.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    files: ['**/*.tsx'],
    rules: {
      // Handlers of events may be async: what they call tells of its failures itself.
      '@typescript-eslint/no-misused-promises': [
        'error',
        { checksVoidReturn: { attributes: false } },
      ],
    },
  },
  {
    files: ['lib/**/*.ts'],
    rules: {
      'max-lines-per-function': ['error', { max: 50, skipBlankLines: true, skipComments: true }],
      // The rules on imports see declarations alone.
      'no-restricted-syntax': [
        'error',
        { selector: 'ImportExpression > Literal', message: 'Import it by a declaration.' },
      ],
      // For folders that are not named below.
      ...imports('\\./', 'Say in eslint.config.js what this folder may import.'),
    },
  },
  {
    files: ['lib/**/*.ts'],
    ignores: [environment],
    rules: {
      'no-restricted-globals': [
        'error',
        {
          globals: banned([
            'Date',
            'performance',
            'crypto',
            'setTimeout',
            'setInterval',
            'setImmediate',
            'queueMicrotask',
          ]),
          checkGlobalObject: true,
        },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Math', property: 'random', message: throughEnvironment },
        { object: 'AbortSignal', property: 'timeout', message: throughEnvironment },
        { object: 'process', property: 'hrtime', message: throughEnvironment },
        { object: 'process', property: 'nextTick', message: throughEnvironment },
      ],
    },
  },
  {
    files: ['lib/*.ts'],
    rules: imports('\\./', 'Entry points name our own exports only.'),
  },
  {
    files: ['lib/core/**/*.ts'],
    rules: {
      ...imports('\\./', 'core imports no package and no other layer.'),
      // `as const` stays allowed.
      '@typescript-eslint/consistent-type-assertions': ['error', { assertionStyle: 'never' }],
    },
  },
  {
    // The core's one adapter: it may assert, and import from Node.
    files: [environment],
    rules: {
      ...imports('\\./|node:', 'core imports no package and no other layer.'),
      '@typescript-eslint/consistent-type-assertions': ['error', { assertionStyle: 'as' }],
    },
  },
  {
    files: ['lib/nodes/**/*.ts'],
    rules: imports(
      `\\./|\\.\\./core/|${node}`,
      'nodes imports core; ioredis in redis-*.ts alone; time and randomness by the Environment.',
    ),
  },
  {
    files: ['lib/nodes/redis-*.ts'],
    rules: imports(
      `\\./|\\.\\./core/|ioredis$|${node}`,
      'nodes imports core; ioredis in redis-*.ts alone; time and randomness by the Environment.',
    ),
  },
  {
    files: ['lib/nest/**/*.ts'],
    // Other @nestjs packages are no peers: what needs them loads them when present.
    rules: imports(
      `\\./|\\.\\./(core|nodes)/|@nestjs/(common|core)(/|$)|rxjs(/|$)|reflect-metadata$|${node}`,
      'nest imports core, nodes, @nestjs/common, @nestjs/core, rxjs.',
    ),
  },
  {
    files: ['lib/terminus/**/*.ts'],
    rules: imports(
      '\\./|\\.\\./(core|nest)/|@nestjs/(common|core|terminus)$',
      'terminus imports core, nest, @nestjs/common, @nestjs/core, @nestjs/terminus.',
    ),
  },
  {
    files: ['lib/opentelemetry/**/*.ts'],
    rules: imports(
      `\\./|\\.\\./(core|nest)/|@nestjs/(common|core)$|@opentelemetry/api$|${node}`,
      'opentelemetry imports core, nest, @nestjs/common, @nestjs/core, @opentelemetry/api.',
    ),
  },
  {
    files: ['lib/testing/**/*.ts'],
    rules: imports('\\./|\\.\\./(core|nodes)/', 'testing imports core and nodes.'),
  },
  {
    files: ['test/**/*.ts', '**/*.spec.ts'],
    rules: {
      // Jest's asymmetric matchers are `any`; test doubles are async without awaiting.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-confusing-void-expression': 'off',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  prettier,
);
