/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  testMatch: [
    '<rootDir>/test/**/*.spec.ts',
    '<rootDir>/sample-app/**/*.spec.ts',
    '<rootDir>/examples/**/*.jest.spec.ts',
  ],
  extensionsToTreatAsEsm: ['.ts'],
  // isolatedModules in tsconfig.json makes ts-jest transpile only; `npm run typecheck` checks types.
  transform: { '\\.ts$': ['ts-jest', { useESM: true, tsconfig: 'tsconfig.json' }] },
  moduleNameMapper: {
    '^nestjs-locked$': '<rootDir>/lib/index.ts',
    '^nestjs-locked/(\\w+)$': '<rootDir>/lib/$1.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  // By default one core is left idle: on two cores that is half the speed.
  maxWorkers: 2,
  // For what hangs. On a machine ten times busier, that many times what a test takes is not enough.
  testTimeout: 180_000,
  // By the environment, so that whoever runs the tests, `npm cit` too, can ask for it.
  collectCoverage: process.env.COVERAGE === 'true',
  // v8 counts no `else` that nobody wrote; babel does.
  coverageProvider: 'babel',
  coverageReporters: ['text'],
  collectCoverageFrom: ['lib/**/*.ts'],
  coverageThreshold: { global: { lines: 95, branches: 95 } },
};
