/* eslint-disable @typescript-eslint/no-unused-vars -- parameters are there for their types */
// What the compiler says about `@Locked`: `npm run typecheck` checks the expected errors. At run
// time there is only the class to define.
import { EventEmitter, on } from 'node:events';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';

import { describe, expect, it } from '@jest/globals';
import type { StreamableFile } from '@nestjs/common';
import { fromContext, Locked, minutes, resource, seconds, type LockedOptions } from 'nestjs-locked';
import { Observable } from 'rxjs';

const isReplica: boolean = process.argv.includes('--replica');
const anyOptions: LockedOptions = { wait: 0 };

class Accepted {
  @Locked('a')
  async literal(): Promise<void> {}

  @Locked(['a', 'b'], seconds(5))
  async several(): Promise<void> {}

  @Locked((id: string) => `a:${id}`)
  async fewerParameters(_id: string, _count: number): Promise<void> {}

  @Locked((id: string | number) => `a:${id}`)
  async widerParameter(_id: string): Promise<void> {}

  @Locked((...ids: string[]) => ids)
  async rest(..._ids: string[]): Promise<void> {}

  @Locked((shelf: string, place: number) => resource`shelf:${shelf}:${place}`)
  async named(_shelf: string, _place: number): Promise<void> {}

  @Locked((id?: string) => id ?? 'none')
  async optional(_id?: string): Promise<void> {}

  @Locked(fromContext((context) => context.getClass().name))
  async context(_id: string): Promise<void> {}

  @Locked('a', { wait: 0, onTaken: 'skip', holdAtLeast: minutes(1), reentrant: true })
  async skipped(): Promise<void> {}

  @Locked('a', { onTaken: 'skip' })
  async skippedValue(): Promise<number | undefined> {
    return 1;
  }

  @Locked('a', { onTaken: 'skip' })
  observeOrSkip(): Observable<number | undefined> {
    return new Observable();
  }

  @Locked('a', { onTaken: 'skip' })
  async *generateOrSkip() {
    yield 1;
  }

  @Locked('a', { onTaken: 'skip' })
  async skippedUnknown(): Promise<unknown> {
    return 1;
  }

  @Locked('a', { onTaken: isReplica ? 'skip' : 'throw' })
  async skippedAtTimes(): Promise<number | undefined> {
    return 1;
  }

  @Locked('a', anyOptions)
  async unknownOptions(): Promise<number> {
    return 1;
  }

  @Locked('a', { onTaken: (id: string) => id.length })
  async fallback(_id: string): Promise<number> {
    return 1;
  }

  @Locked('a', {
    onTaken(id: string) {
      return id.length;
    },
  })
  async fallbackMethod(_id: string): Promise<number> {
    return 1;
  }

  @Locked('a', { onTaken: () => 'busy' })
  async literalFallback(): Promise<'busy' | 'done'> {
    return 'done';
  }

  @Locked('a', { onTaken: async () => undefined })
  async asyncFallback(): Promise<string | undefined> {
    return undefined;
  }

  @Locked('a')
  observe(): Observable<number> {
    return new Observable();
  }

  @Locked('a')
  async *generate(): AsyncGenerator<number> {
    yield 1;
  }

  @Locked('a')
  async *converse(): AsyncGenerator<number, string, boolean> {
    return (yield 1) ? 'yes' : 'no';
  }

  @Locked('a', { onTaken: 'skip' })
  async *converseOrSkip(): AsyncGenerator<number, string | undefined, boolean> {
    return (yield 1) ? 'yes' : undefined;
  }

  @Locked('a')
  read(): Readable {
    return Readable.from([]);
  }

  @Locked('a')
  async file(): Promise<StreamableFile | undefined> {
    return undefined;
  }

  @Locked('a')
  async iterable(): Promise<AsyncIterable<number> | null> {
    return null;
  }

  @Locked('a')
  async generator(): Promise<AsyncGenerator<number>> {
    return this.generate();
  }

  @Locked('a')
  async events(): Promise<ReturnType<typeof on>> {
    return on(new EventEmitter(), 'event');
  }

  @Locked('a')
  async web(): Promise<ReadableStream<string>> {
    return new ReadableStream();
  }

  @Locked('a')
  async anything(): Promise<ReturnType<typeof JSON.parse>> {
    return 1;
  }

  @Locked('a')
  async generic<T>(value: T): Promise<T> {
    return value;
  }
}

interface Page extends AsyncIterable<string> {
  readonly data: readonly string[];
}

class AcceptedOfAnyEntity<Entity extends { readonly id: string }> {
  @Locked(({ id }: { readonly id: string }) => id)
  async save(entity: Entity): Promise<Entity> {
    return entity;
  }

  @Locked('a', { onTaken: 'skip' })
  async skipped(entity: Entity): Promise<Entity | undefined> {
    return entity;
  }

  @Locked('a', { onTaken: () => null })
  async fallback(entity: Entity): Promise<Entity | null> {
    return entity;
  }

  @Locked('a')
  observe(): Observable<Entity> {
    return new Observable();
  }
}

// Its parameter looks like the method's own, so the compiler's words have to say what is missing.
const untyped = Locked((id) => id);
type Refusal = Parameters<typeof untyped<(id: string) => Promise<void>>>[2]['nestjs-locked'];
const refusal: Refusal =
  'the parameters of this function have no types, or not those of the @Locked method';

function define(): unknown {
  // A declaration: on a class that is an expression the compiler refuses any decorator.
  class Refused {
    // @ts-expect-error -- the method has no string to give
    @Locked((id: string) => `a:${id}`)
    async otherType(_id: number): Promise<void> {}

    // @ts-expect-error -- the method has no second parameter
    @Locked((id: string, part: string) => `a:${id}:${part}`)
    async tooFew(_id: string): Promise<void> {}

    // @ts-expect-error -- the method may be called without it
    @Locked((id: string) => `a:${id}`)
    async optional(_id?: string): Promise<void> {}

    // @ts-expect-error -- a resource is a string
    @Locked((id: number) => id)
    async notAName(_id: number): Promise<void> {}

    // @ts-expect-error -- what may be missing has no place in a name
    @Locked((order: { id?: string }) => resource`a:${order.id}`)
    async missing(_order: { id?: string }): Promise<void> {}

    // @ts-expect-error -- synchronous
    @Locked('a')
    synchronous() {
      return { count: 1 };
    }

    // @ts-expect-error -- synchronous at times
    @Locked('a')
    atTimes(): Promise<void> | undefined {
      return undefined;
    }

    // @ts-expect-error -- no such option
    @Locked('a', { waitt: 0, wait: 0 })
    async option(): Promise<void> {}

    // @ts-expect-error -- a fallback of another type
    @Locked('a', { onTaken: () => 'none' })
    async fallback(): Promise<number> {
      return 1;
    }

    // @ts-expect-error -- skipped it gives undefined
    @Locked('a', { onTaken: 'skip' })
    async skipped(): Promise<number> {
      return 1;
    }

    // @ts-expect-error -- skipped at times it gives undefined
    @Locked('a', { onTaken: isReplica ? 'skip' : 'throw' })
    async skippedAtTimes(): Promise<number> {
      return 1;
    }

    // @ts-expect-error -- skipped it emits undefined
    @Locked('a', { onTaken: 'skip' })
    skippedObservable(): Observable<number> {
      return new Observable();
    }

    // @ts-expect-error -- what comes out is iterated under the lock, and has no data
    @Locked('a')
    async page(): Promise<Page> {
      return Promise.reject(new Error('never'));
    }

    // @ts-expect-error -- a page at times
    @Locked('a')
    async pageAtTimes(): Promise<Page | null> {
      return null;
    }

    // @ts-expect-error -- a fallback of other parameters
    @Locked('a', { onTaken: (id: number) => id })
    async fallbackParameters(_id: string): Promise<number> {
      return 1;
    }

    // @ts-expect-error -- a fallback of other parameters, written as a method
    @Locked('a', {
      onTaken(id: number) {
        return id;
      },
    })
    async fallbackMethod(_id: string): Promise<number> {
      return 1;
    }

    // @ts-expect-error -- who calls a signal-less method could not abort it
    @Locked('a', { signal: new AbortController().signal })
    async signal(): Promise<void> {}
  }
  return Refused;
}

describe('the types of @Locked', () => {
  it('accept what fits and refuse what does not, as tsc says', () => {
    const kinds = [typeof Accepted, typeof AcceptedOfAnyEntity, typeof define, typeof refusal];

    expect(kinds).toEqual(['function', 'function', 'function', 'string']);
  });
});
