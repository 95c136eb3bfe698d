import { BadRequestException, type ArgumentMetadata, type PipeTransform } from '@nestjs/common';

/** Accepts a whole number from `min` to `max`: a number from JSON, or text from a query. */
export class WholeNumberPipe implements PipeTransform<unknown, number> {
  constructor(private readonly range: { readonly min: number; readonly max: number }) {}

  transform(value: unknown, { type, data }: ArgumentMetadata): number {
    const { min, max } = this.range;
    const isText = type === 'query' && typeof value === 'string' && value !== '';
    const number = isText ? Number(value) : value;
    // Written so that NaN is refused too.
    if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) {
      return number;
    }
    throw new BadRequestException(
      `Expected ${data} to be a whole number from ${min} to ${max}, got ${JSON.stringify(value)}`,
    );
  }
}
