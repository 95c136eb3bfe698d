// What tests wait for, instead of sleeping.

/** A promise that a test resolves. */
export class Gate<T = void> {
  readonly passed: Promise<T>;
  open!: (value: T) => void;

  constructor() {
    this.passed = new Promise((resolve) => (this.open = resolve));
  }
}

/** What a promise rejects with; fails when it resolves. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('Expected a rejection');
}

/** What a function throws; fails when it returns. */
export function thrown(body: () => unknown): unknown {
  try {
    body();
  } catch (error) {
    return error;
  }
  throw new Error('Expected an exception');
}

/** Resolves when a signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
}

/** Lets the event loop turn once, to look again at what has no event. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** What runs `run`, and resolves to its result, when it is awaited, as the queries of Prisma do. */
export function queryOf<T>(run: () => T | Promise<T>): Promise<T> {
  const query: PromiseLike<T> = {
    then: (onResult, onError) => Promise.resolve().then(run).then(onResult, onError),
  };
  return query as Promise<T>;
}
