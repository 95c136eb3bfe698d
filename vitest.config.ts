import { defineConfig } from 'vitest/config';

// The examples for users of vitest, over the built package. The project's own tests run in jest.
export default defineConfig({
  test: { include: ['examples/**/*.vitest.spec.ts'] },
});
