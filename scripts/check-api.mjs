// Compares the public API of each entry point with api/*.api.md: a change of it shows in review.
// With --update the reports are written anew; without, a difference is an error.
import { join } from 'node:path';

import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';

import { root } from './command.mjs';

const ENTRIES = ['index', 'terminus', 'opentelemetry', 'testing'];
const isUpdate = process.argv.includes('--update');

for (const entry of ENTRIES) {
  const extractorConfig = ExtractorConfig.prepare({
    packageJsonFullPath: join(root, 'package.json'),
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: join(root, `dist/esm/${entry}.d.ts`),
      compiler: {
        overrideTsconfig: {
          compilerOptions: { module: 'nodenext', target: 'es2022', strict: true, types: ['node'] },
          files: [join(root, `dist/esm/${entry}.d.ts`)],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: `${entry}.api.md`,
        reportFolder: join(root, 'api'),
        reportTempFolder: join(root, 'dist/api'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      messages: {
        extractorMessageReporting: {
          default: { logLevel: 'error' },
          // Public is what the entry points name; tags would only repeat that.
          'ae-missing-release-tag': { logLevel: 'none' },
          'ae-internal-missing-underscore': { logLevel: 'none' },
          // Members may have types that no entry point exports, such as in Lock's constructor.
          'ae-forgotten-export': { logLevel: 'none' },
          // API Extractor looks among the exports for links to members of the same class.
          'ae-unresolved-link': { logLevel: 'none' },
          // Some names say it all.
          'ae-undocumented': { logLevel: 'none' },
        },
        tsdocMessageReporting: { default: { logLevel: 'none' } },
      },
    },
  });
  const { succeeded } = Extractor.invoke(extractorConfig, {
    localBuild: isUpdate,
    showVerboseMessages: false,
    messageCallback: (message) => {
      // API Extractor's own compiler is older than ours, and says so.
      if (message.messageId === 'console-compiler-version-notice') message.logLevel = 'none';
    },
  });
  if (succeeded) continue;
  process.exitCode = 1;
  if (isUpdate) continue;
  console.error(`${entry}: the public API is not as api/${entry}.api.md has it.`);
  console.error('Where the change is meant: npm run check:api -- --update, and commit it.');
}
