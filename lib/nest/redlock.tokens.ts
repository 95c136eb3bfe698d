import { Inject } from '@nestjs/common';

import { checkText } from '../core/option-checks.js';

/** Name of the lock domain where none is given. */
export const defaultDomain = 'default';

/**
 * Returns the injection token of a lock domain's `RedlockService`, by default that of the domain
 * without a name. The token is the same for the ESM and the CJS copy of the package; the class
 * `RedlockService` is not.
 * @throws TypeError for a name that is not a non-empty string.
 */
export function getRedlockToken(name: string = defaultDomain): symbol {
  checkDomain(name);
  // Nest prints the token when nothing provides it, so the token has to say what to do.
  return Symbol.for(
    name === defaultDomain
      ? 'RedlockService of nestjs-locked: import RedlockModule.forRoot(…) into the root module, ' +
          'or with isGlobal: false into this one'
      : `RedlockService '${name}' of nestjs-locked: import RedlockModule.forRoot(…, { name: ` +
          `'${name}' }) into the root module, or with isGlobal: false into this one`,
  );
}

/** Token of a domain's `LockRuntime`. */
export function runtimeToken(name: string): symbol {
  return Symbol.for(`nestjs-locked.runtime:${name}`);
}

/**
 * Injects the `RedlockService` of a lock domain.
 * @example
 * ```ts
 * constructor(@InjectRedlock('billing') private readonly redlock: RedlockService) {}
 * ```
 * @throws TypeError for a name that is not a non-empty string.
 */
export function InjectRedlock(name?: string): ParameterDecorator & PropertyDecorator {
  return Inject(getRedlockToken(name));
}

/** @throws TypeError for a name that is not a non-empty string. */
export function checkDomain(name: unknown): void {
  checkText('the name of a lock domain', name);
}
