import { BadRequestException, type ArgumentMetadata, type PipeTransform } from '@nestjs/common';

/** Accepts text that matches: input that becomes part of a lock's name is checked too. */
export class PatternPipe implements PipeTransform<unknown, string | undefined> {
  constructor(
    private readonly pattern: RegExp,
    private readonly options: { readonly isOptional: boolean } = { isOptional: false },
  ) {}

  transform(value: unknown, { data }: ArgumentMetadata): string | undefined {
    if (value === undefined && this.options.isOptional) return undefined;
    if (typeof value === 'string' && this.pattern.test(value)) return value;
    throw new BadRequestException(
      `Expected ${data} to match ${this.pattern}, got ${JSON.stringify(value)}`,
    );
  }
}

/** A sku, an account, a job. */
export const namePipe = new PatternPipe(/^[\w-]{1,50}$/);

const RESOURCE = /^(?!redlock:)[\w:-]{1,100}$/;

/** A lock's resource: any except those that the protocol reserves. */
export const resourcePipe = new PatternPipe(RESOURCE);
export const optionalResourcePipe = new PatternPipe(RESOURCE, { isOptional: true });
