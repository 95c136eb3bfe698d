import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';

interface Headed {
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** Refuses what other sites' pages send from a visitor's browser: this app freezes processes. */
@Injectable()
export class SameOriginGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { origin, host } = context.switchToHttp().getRequest<Headed>().headers;
    // curl and the like send no such header.
    if (origin === undefined) return true;
    return URL.canParse(origin) && new URL(origin).host === host;
  }
}
