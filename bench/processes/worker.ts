// The program of a candidate's process: takes orders from the runner, one at a time or several.
// Its optional argument is a folder for a CPU profile of that work, without loading and connecting.
import { mkdirSync, writeFileSync } from 'node:fs';
import { Session as InspectorSession } from 'node:inspector';
import { join } from 'node:path';

import { Session } from '../tasks/session.js';
import type { TaskName, Tasks } from '../tasks/session.js';
import type { Answer, NumberedOrder, Order } from './candidate-process.js';

let session: Session | null = null;
let candidate = '';
let profiler: { stop(): void } | null = null;

async function follow(order: Order): Promise<unknown> {
  if (order.kind === 'open') {
    candidate = order.setup.candidate;
    session = await Session.open(order.setup);
    return null;
  }
  if (session === null) throw new Error('Not opened');
  if (order.kind === 'run') {
    profiler ??= startProfiler();
    // The runner's types ensure that name and input belong together.
    return session.run(order.name, order.input as Tasks[TaskName]['input']);
  }
  // The runner has all that it wants; a candidate that cannot end by itself is ended.
  setTimeout(() => process.exit(0), CLOSE_TIMEOUT).unref();
  profiler?.stop();
  await session.close().catch(() => undefined);
  setImmediate(() => process.exit(0));
  return null;
}

async function answer(order: NumberedOrder): Promise<Answer> {
  try {
    return { id: order.id, output: await follow(order) };
  } catch (error) {
    return {
      id: order.id,
      error: error instanceof Error ? (error.stack ?? String(error)) : String(error),
    };
  }
}

function startProfiler(): { stop(): void } {
  const [, , folder] = process.argv;
  if (folder === undefined) return { stop: () => undefined };
  const inspector = new InspectorSession();
  inspector.connect();
  inspector.post('Profiler.enable');
  inspector.post('Profiler.start');
  return {
    // The inspector of the same thread answers before `post` returns.
    stop: () =>
      inspector.post('Profiler.stop', (_error, { profile }) => {
        mkdirSync(folder, { recursive: true });
        const file = join(folder, `${candidate}-${process.pid}.cpuprofile`);
        writeFileSync(file, JSON.stringify(profile));
      }),
  };
}

const CLOSE_TIMEOUT = 1_000;

process.on('message', (order: NumberedOrder) => {
  void answer(order).then((reply) => process.send?.(reply));
});
// The runner has died.
process.on('disconnect', () => process.exit(0));
