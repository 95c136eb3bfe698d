// Guards of `@Locked` endpoints, whatever the order of the decorators.
import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  HttpCode,
  Injectable,
  Param,
  ParseIntPipe,
  Query,
  SetMetadata,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { currentLock, Locked, RedlockService } from 'nestjs-locked';

import { startServer } from './support/applications.js';
import { requestOf, get } from './support/requests.js';

describe('a role guard on a @Locked endpoint', () => {
  const Roles = (...roles: string[]) => SetMetadata('roles', roles);

  @Injectable()
  class RoleGuard implements CanActivate {
    readonly reflector: Reflector;
    constructor(reflector: Reflector) {
      this.reflector = reflector;
    }

    // Like most role guards: no roles named, everybody may come in.
    canActivate(context: ExecutionContext): boolean {
      const roles = this.reflector.get<string[] | undefined>('roles', context.getHandler());
      return roles?.includes(requestOf(context).headers.role ?? '') ?? true;
    }
  }

  @Controller()
  class Vault {
    @Locked('vault')
    @Get('top')
    @UseGuards(RoleGuard)
    @Roles('admin')
    @HttpCode(202)
    async top(): Promise<string> {
      return 'gold';
    }

    @Get('bottom')
    @UseGuards(RoleGuard)
    @Roles('admin')
    @HttpCode(202)
    @Locked('vault')
    async bottom(): Promise<string> {
      return 'gold';
    }

    @Get('middle')
    @Roles('admin')
    @Locked('vault')
    @UseGuards(RoleGuard)
    @HttpCode(202)
    async middle(): Promise<string> {
      return 'gold';
    }

    @Roles('admin')
    @Locked((id: number) => `vault:${id}`)
    @Get('by/:id')
    @UseGuards(RoleGuard)
    @HttpCode(202)
    async byId(@Param('id', ParseIntPipe) id: number, @Query('q') q: string): Promise<unknown> {
      return { id, q, locked: currentLock()?.resources };
    }
  }

  it.each(['/top', '/bottom', '/middle', '/by/7'])(
    'keeps strangers out and lets admins in, whatever the order: %s',
    async (path) => {
      const { url } = await startServer({ controllers: [Vault] });

      const stranger = await get(url, path, { headers: { role: 'user' } });
      const admin = await get(url, path, { headers: { role: 'admin' } });

      expect(stranger.status).toBe(403);
      expect(admin.status).toBe(202);
    },
  );

  it('passes parameters through pipes, and locks by what they made of them', async () => {
    const { url } = await startServer({ controllers: [Vault] });

    const good = await get(url, '/by/7?q=x', { headers: { role: 'admin' } });
    const bad = await get(url, '/by/seven', { headers: { role: 'admin' } });

    expect(JSON.parse(good.body)).toEqual({ id: 7, q: 'x', locked: ['vault:7'] });
    expect(bad.status).toBe(400);
  });

  it('acquires nothing for a request that a guard refuses', async () => {
    const { url, application } = await startServer({ controllers: [Vault] });
    const redlock = application.get(RedlockService);

    await redlock.using('vault', async () => {
      expect((await get(url, '/top', { headers: { role: 'user' } })).status).toBe(403);
    });
  });
});
