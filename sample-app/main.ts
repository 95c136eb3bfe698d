import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';

import { AppModule } from './app.module.js';
import { prepareInfrastructure } from './infrastructure/infrastructure.js';
import { servePage } from './lab/page.js';

const logger = new Logger('SampleApp');

const infrastructure = await prepareInfrastructure(process.env);
const { nodes, store, description } = infrastructure;
logger.log(description);

const isLocked = process.env.LOCKS !== 'off';
if (!isLocked) logger.warn('LOCKS=off: sells without locks, and more than there is');

const app = await NestFactory.create<NestExpressApplication>(
  AppModule.register({ nodes, store, isLocked, lab: infrastructure }),
);
servePage(app);
// On SIGTERM and Ctrl-C: HTTP drains, locked bodies end, their locks are released.
app.enableShutdownHooks();
await store.seed({ 'sku:apple': 100, 'account:alice': 100, 'account:bob': 100 });

// Loopback unless told otherwise: nothing here asks who the caller is.
await app.listen(process.env.PORT ?? 3000, process.env.HOST ?? '127.0.0.1');
logger.log(`listening on http://localhost:${new URL(await app.getUrl()).port}`);
