import { Catch, ServiceUnavailableException, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';

import { StaleTokenError } from './fenced-store.js';

/** A refused write changed nothing, so the client is told to retry: 503, `Retry-After`. */
@Catch(StaleTokenError)
export class StaleTokenFilter extends BaseExceptionFilter {
  override catch(error: StaleTokenError, host: ArgumentsHost): void {
    const response = host
      .switchToHttp()
      .getResponse<{ setHeader(name: string, value: string): void }>();
    response.setHeader('Retry-After', '1');
    super.catch(new ServiceUnavailableException(error.message, { cause: error }), host);
  }
}
