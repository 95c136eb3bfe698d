// Checks what must hold before this version is published; `npm publish` runs it (prepublishOnly).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, run } from './command.mjs';

const { version, repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const git = async (...args) => (await run('git', args)).trim();

const CHECKS = [
  [
    'The working tree is clean: commit or stash what is open.',
    async () => (await git('status', '--porcelain')) === '',
  ],
  [
    `CHANGELOG.md has a section for ${version} with its date: write what users will notice.`,
    () =>
      readFileSync(join(root, 'CHANGELOG.md'), 'utf8')
        .split('\n')
        .some((line) => line.startsWith(`## ${version} `) && /\d{4}-\d{2}-\d{2}$/.test(line)),
  ],
  [
    `The commit is tagged v${version}: git tag v${version}.`,
    async () => (await git('tag', '--points-at', 'HEAD')).split('\n').includes(`v${version}`),
  ],
  [
    'package.json names the repository: provenance is checked against it.',
    () => typeof repository?.url === 'string',
  ],
  [
    'It runs in a CI that proves where the package was built (id-token: write): npm publish there.',
    () => Boolean(process.env.ACTIONS_ID_TOKEN_REQUEST_URL ?? process.env.SIGSTORE_ID_TOKEN),
  ],
];

const failed = [];
for (const [rule, isTrue] of CHECKS) if (!(await isTrue())) failed.push(rule);
for (const rule of failed) console.error(`Not so: ${rule}`);
if (failed.length > 0) process.exit(1);
await run('bash', ['.ci/run'], { stdio: 'inherit' });
