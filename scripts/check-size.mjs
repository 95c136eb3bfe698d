// Checks what the library adds to a bundle, minified and gzipped, without its peers: each entry
// point, and parts that somebody may want alone.
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

import { root } from './command.mjs';

/** In bytes, slightly above the present sizes, so that growth is a decision. */
const LIMITS = {
  "* from './index.js'": 45_700,
  "{ Locked } from './index.js'": 7_975,
  "{ MemoryNode } from './index.js'": 2_100,
  "* from './terminus.js'": 1_600,
  "* from './opentelemetry.js'": 4_600,
  "* from './testing.js'": 3_920,
};

for (const [what, limit] of Object.entries(LIMITS)) {
  const { outputFiles } = await build({
    stdin: { contents: `export ${what}`, resolveDir: join(root, 'dist/esm') },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    write: false,
  });
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`${what}: ${size} bytes minified and gzipped, at most ${limit}`);
  if (size <= limit) continue;
  process.exitCode = 1;
  console.error('That is too much: make it smaller, or raise its limit in scripts/check-size.mjs.');
}
