import { describe, expect, it } from '@jest/globals';

import { encodeCommand } from '../../lib/nodes/redis-command.js';

describe('a command', () => {
  it('is its words, each after its size', () => {
    const { argumentCount, bytes, name } = encodeCommand('evalsha', ['hash', 1, 'sku:1']);

    expect(bytes.toString()).toBe(
      '*4\r\n$7\r\nevalsha\r\n$4\r\nhash\r\n$1\r\n1\r\n$5\r\nsku:1\r\n',
    );
    expect({ argumentCount, name }).toEqual({ argumentCount: 3, name: 'evalsha' });
  });

  it.each([
    ['two bytes', 'é'],
    ['three bytes', '€'],
    ['four bytes, a pair of surrogates', '🔒'],
    ['half such a pair', '\ud83d'],
    ['no byte', ''],
  ])('has the size in bytes of a character of %s', (_, word) => {
    const { bytes } = encodeCommand('get', [word, 'x']);

    const size = Buffer.byteLength(word);
    const encoded = Buffer.from(word).toString();
    expect(bytes.toString()).toBe(`*3\r\n$3\r\nget\r\n$${size}\r\n${encoded}\r\n$1\r\nx\r\n`);
  });
});
