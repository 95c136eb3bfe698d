// Interceptors of an application: one opens a transaction and notes who has the lock, one retries.
import {
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { RedlockService } from 'nestjs-locked';
import { catchError, concatMap, defer, map, Observable } from 'rxjs';
import { mergeMap, retry } from 'rxjs/operators';

/** Writes down who did what, and whether the lock was held then. */
export const journal: string[] = [];

export function note(redlock: RedlockService, what: string): Promise<void> {
  return redlock.inspect('order:7').then(({ state }) => {
    journal.push(`${what} ${state}`);
  });
}

@Injectable()
export class Transaction implements NestInterceptor {
  readonly redlock: RedlockService;
  constructor(redlock: RedlockService) {
    this.redlock = redlock;
  }

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return defer(() => note(this.redlock, 'begin')).pipe(
      mergeMap(() => next.handle()),
      concatMap((value: unknown) => note(this.redlock, 'commit').then(() => value)),
      catchError((error: unknown) =>
        defer(() => note(this.redlock, 'rollback')).pipe(
          map(() => {
            throw error;
          }),
        ),
      ),
    );
  }
}

/** An interceptor that tries a call that failed once more, after `between`. */
export function retriesAfter(between: () => Promise<unknown>): Type<NestInterceptor> {
  @Injectable()
  class Retrying implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(retry({ count: 1, delay: between }));
    }
  }
  return Retrying;
}
