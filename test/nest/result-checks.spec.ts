// What a result is taken for. By its members: there may be several copies of a class.
import { Readable } from 'node:stream';

import { describe, expect, it } from '@jest/globals';
import { of, Subject } from 'rxjs';

import { isObservable, isStreamed, streamOf } from '../../lib/nest/result-checks.js';

const partsOfStream = ['pipe', 'read', 'on', 'once', 'destroy'];
const partsOfFile = ['getStream', 'getHeaders', 'setErrorHandler'];

describe('a result', () => {
  const stream = Readable.from([]);
  const made = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, () => stream]));
  const without = (missing: string, names: readonly string[]) =>
    made(names.filter((name) => name !== missing));

  it.each(partsOfStream)('is no stream if it lacks %s', (missing) => {
    const whole = made(partsOfStream);

    expect(streamOf(whole)).toBe(whole);
    expect(streamOf(without(missing, partsOfStream))).toBeNull();
  });

  it.each(['lift', 'subscribe'])('is no Observable if its class has only %s', (part) => {
    expect(isObservable(Object.create({ [part]: () => undefined }))).toBe(false);
    expect(isObservable(new Subject())).toBe(true);
  });

  it.each(partsOfFile)('is no file if it lacks %s', (missing) => {
    expect(streamOf(made(partsOfFile))).toBe(stream);
    expect(streamOf(without(missing, partsOfFile))).toBeNull();
  });
});

describe('an answer', () => {
  async function* rows(): AsyncGenerator<string> {
    yield 'row';
  }
  const read = async (): Promise<Response> => {
    const response = new Response('rows');
    await response.text();
    return response;
  };
  // As that of an ORM, which gives its rows to whoever awaits it or iterates.
  const query = Object.assign(rows(), { then: () => undefined });

  it.each([
    ['a stream', true, Readable.from([])],
    ['rows', true, rows()],
    ['a response', true, new Response('rows')],
    ['a response without a body', false, new Response()],
    ['a response that has been read', false, read],
    ['an Observable', false, of('row')],
    ['a query', false, query],
    ['a value', false, { rows: 1 }],
  ])('that is %s is sent as a stream: %j', async (_what, expected, answer) => {
    expect(isStreamed(typeof answer === 'function' ? await answer() : answer)).toBe(expected);
  });
});
