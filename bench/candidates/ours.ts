// nestjs-locked as an application uses it: the service of a Nest application context.
import 'reflect-metadata';

import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedlockModule, RedlockService, type RedlockModuleOptions } from 'nestjs-locked';

import type { Connect } from './candidate.js';

/**
 * Connects with the quarantine off, unless `options` say otherwise: the bench's servers are brand
 * new, and their votes would not count for half a minute.
 */
export function connectOurs(options: RedlockModuleOptions): Connect {
  return async (urls, { ttl, patience }) => {
    class BenchModule {}
    const redlockModule = RedlockModule.forRoot(urls.length === 0 ? undefined : urls, {
      quarantine: false,
      interceptor: false,
      wait: patience,
      shutdownTimeout: 0,
      ...options,
    });
    Module({ imports: [redlockModule] })(BenchModule);
    const application = await NestFactory.createApplicationContext(BenchModule, {
      logger: false,
      abortOnError: false,
    });
    const service = application.get(RedlockService);
    return {
      acquire: (resource) => service.acquire(resource, ttl),
      using: (resource, body) => service.using(resource, { ttl, watchdog: false }, body),
      keep: async (resource) => {
        const lock = await service.acquire(resource, ttl, { watchdog: true });
        return { release: () => lock.release(), isLost: () => !lock.isValid };
      },
      close: () => application.close(),
    };
  };
}
