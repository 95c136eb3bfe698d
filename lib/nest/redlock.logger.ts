import { Logger } from '@nestjs/common';

/** The logger of the Nest layer. */
export const redlockLogger = new Logger('Redlock');
