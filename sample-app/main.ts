import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';

import { AppModule } from './app.module.js';
import { prepareInfrastructure } from './infrastructure/infrastructure.js';
import { servePage } from './lab/serve-page.js';

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
const { PORT: port = '3000', HOST: host = '127.0.0.1' } = process.env;
try {
  // As a number: Node takes any other text for the name of a local socket.
  await app.listen(Number(port), host);
} catch (error) {
  logger.error(`Choose where to listen by PORT and HOST, PORT=0 is a free port: ${String(error)}`);
  process.exit(1);
}
logger.log(`listening on http://localhost:${new URL(await app.getUrl()).port}`);
