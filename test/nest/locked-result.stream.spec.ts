// Methods that return streams stay locked until those end, fail or are dropped.
import { once } from 'node:events';
import { Duplex, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { currentLock, Locked, RedlockService } from 'nestjs-locked';

import { dropUnread } from '../../lib/nest/locked-result.js';
import { startModule } from './support/applications.js';
import { Gate, rejection, turn } from './support/events.js';
import { start } from './support/feeds.js';

describe('a @Locked method that returns a stream', () => {
  it('releases when the stream has closed', async () => {
    const { feeds, isFree, freed } = await start();

    const stream = await feeds.read(Readable.from(['one', 'two']));
    expect(await isFree()).toBe(false);

    expect(await text(stream)).toBe('onetwo');
    await freed();
  });

  it('releases at the end of a stream that never closes', async () => {
    const { feeds, freed } = await start();
    const stream = new Readable({ autoDestroy: false, read: () => stream.push(null) });

    await feeds.read(stream);
    // An error that nobody hears is to end the process, as ever.
    expect(stream.listenerCount('error')).toBe(0);
    expect(await text(stream)).toBe('');

    await freed();
    expect(stream.closed).toBe(false);
  });

  it('releases at the end of what is read, however long more may be written', async () => {
    const { feeds, freed } = await start();
    const socket = new Duplex({ read: () => socket.push(null), write: () => {} });

    await feeds.read(socket);
    socket.resume();

    await freed();
    expect(socket.writable).toBe(true);
  });

  it('takes no stream out of an object that happens to have one', async () => {
    const { feeds, isFree } = await start();
    const getStream = jest.fn(() => new Readable({ read: () => {} }));

    await feeds.attach({ getStream });

    expect(getStream).not.toHaveBeenCalled();
    expect(await isFree()).toBe(true);
  });

  it('releases when the stream is destroyed', async () => {
    const { feeds, freed } = await start();
    const file = await feeds.download(Readable.from(['one']));

    file.getStream().destroy();

    await freed();
  });

  it('does not hold for a stream that has closed already', async () => {
    const { feeds, freed } = await start();
    const stream = Readable.from([]);
    stream.destroy();
    await once(stream, 'close');

    await feeds.read(stream);

    await freed();
  });

  it('destroys the stream with the LockLostError when the lock is lost first', async () => {
    const { feeds, loseLock } = await start();
    const stream = await feeds.read(new Readable({ read: () => {} }));
    const reading = rejection(text(stream));

    loseLock();

    expect(await reading).toMatchObject({ code: 'LOCK_LOST' });
    expect(stream.destroyed).toBe(true);
  });

  it('fails a file without naming resources and nodes: Nest may send the message', async () => {
    const { feeds, loseLock } = await start();
    const file = await feeds.download(new Readable({ read: () => {} }));
    const reading = rejection(text(file.getStream()));

    loseLock();

    expect(await reading).toMatchObject({
      message: 'The lock was lost before the file was sent',
      cause: { code: 'LOCK_LOST' },
    });
  });

  it('does not end the process when the lock is lost and nobody reads the stream', async () => {
    const { feeds, loseLock } = await start();
    const stream = await feeds.read(new Readable({ read: () => {} }));

    loseLock();
    await new Promise((resolve) => stream.once('close', resolve));

    expect(stream.errored).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('keeps a web stream a web stream', async () => {
    const { feeds, isFree, freed } = await start();

    const stream = await feeds.web();
    expect([stream instanceof ReadableStream, await isFree()]).toEqual([true, false]);
    const reader = stream.getReader();

    expect(await reader.read()).toEqual({ done: false, value: 'web' });
    expect((await reader.read()).done).toBe(true);
    await freed();
  });

  it.each(['before it is read', 'while a read waits for data'])(
    'releases when a web stream is cancelled: %s',
    async (moment) => {
      const { feeds, isFree, freed } = await start();
      const cancelled = new Gate<unknown>();
      const source = new ReadableStream({ cancel: () => cancelled.open('cancelled') });
      const reader = (await feeds.attach(source)).getReader();
      const read = moment.startsWith('while') ? reader.read() : Promise.resolve({ done: true });
      expect(await isFree()).toBe(false);

      await reader.cancel();

      expect([await cancelled.passed, (await read).done]).toEqual(['cancelled', true]);
      await freed();
    },
  );

  it('is locked until the source of a web stream has been cancelled', async () => {
    const { feeds, isFree, freed } = await start();
    const [asked, done] = [new Gate(), new Gate()];
    const cancel = async (): Promise<void> => {
      asked.open();
      await done.passed;
    };
    const stream = await feeds.attach(new ReadableStream({ cancel }));

    const cancelled = stream.cancel();
    await asked.passed;
    await turn();
    expect(await isFree()).toBe(false);
    done.open();

    await cancelled;
    await freed();
  });

  it('is held no longer than maxHold when nobody reads it', async () => {
    const lost = new Gate<unknown>();
    @Injectable()
    class Service {
      @Locked('unread', { ttl: 100, maxHold: 100 })
      async read(): Promise<Readable> {
        const stream = new Readable({ read: () => {} });
        currentLock()?.signal.addEventListener('abort', (event) => lost.open(event.type));
        return stream;
      }
    }
    const module = await startModule({ providers: [Service] });

    const stream = await module.get(Service).read();
    await lost.passed;

    await module.get(RedlockService).using('unread', { wait: 5_000 }, () => undefined);
    expect(stream.destroyed).toBe(true);
  });
});

describe('a file that is dropped because nobody has begun to read it', () => {
  it('may report later that it could not be opened', async () => {
    const [opened, closed] = [new Gate<Error>(), new Gate()];
    const file = new Readable({ construct: (done) => void opened.passed.then(done) });
    file.once('close', () => closed.open());

    dropUnread(file);
    opened.open(new Error('no such file'));

    await closed.passed;
  });
});
