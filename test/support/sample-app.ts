import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';

import { AppModule, type AppOptions } from '../../sample-app/app.module.js';
import { afterTest } from './after-test.js';

/** Starts the sample application in this process, over HTTP; it ends with the test. */
export async function startSampleApp(
  options: AppOptions,
): Promise<{ app: INestApplication; url: string }> {
  const imports = [AppModule.register(options)];
  const module = await Test.createTestingModule({ imports }).compile();
  module.useLogger(false);
  const app = module.createNestApplication();
  afterTest(() => app.close());
  await app.listen(0, '127.0.0.1');
  return { app, url: await app.getUrl() };
}
