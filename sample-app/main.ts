import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

import { AppModule } from './app.module.js';
import { prepareInfrastructure } from './infrastructure/infrastructure.js';

const logger = new Logger('SampleApp');

const { nodes, store, description } = await prepareInfrastructure(process.env);
logger.log(description);

const isLocked = process.env.LOCKS !== 'off';
if (!isLocked) logger.warn('LOCKS=off: sells without locks, and more than there is');

const app = await NestFactory.create(AppModule.register({ nodes, store, isLocked }));
// On SIGTERM and Ctrl-C: HTTP drains, locked bodies end, their locks are released.
app.enableShutdownHooks();
await store.seed({ 'sku:apple': 100, 'account:alice': 100, 'account:bob': 100 });

// Loopback unless told otherwise: nothing here asks who the caller is.
await app.listen(process.env.PORT ?? 3000, process.env.HOST ?? '127.0.0.1');
logger.log(`listening on http://localhost:${new URL(await app.getUrl()).port}`);
