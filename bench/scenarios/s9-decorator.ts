import { rowOf, usualSettings } from './turns.js';
import type { Cost } from '../tasks/overhead.js';
import type { Row, Sample, Scenario } from './scenario.js';

/**
 * What does `@Locked` add to `using`, and `using` to a plain call? Calls one after the other in one
 * process, over a node in its memory: what remains is the library's own work.
 */
export const decorator: Scenario = {
  id: 'S9',
  title: '@Locked, using and a plain call, one node in the process’s memory',
  question: 'What does @Locked add to using, and using to a plain call?',
  full: { seconds: 1, rounds: 5 },
  quick: { seconds: 1, rounds: 2 },
  metrics: [
    { key: 'time', label: 'time per call', unit: 'µs' },
    { key: 'added', label: 'added to the line before', unit: 'µs' },
    { key: 'heap', label: 'heap allocated per call', unit: 'B' },
  ],
  plotted: ['time'],
  async run(context) {
    context.log('S9');
    const calls = context.isQuick ? 2_000 : 20_000;
    const samples: Record<'plain' | 'using' | 'locked', Sample[]> = {
      plain: [],
      using: [],
      locked: [],
    };
    for (let round = 0; round < context.pace.rounds; round += 1) {
      // A process per round: what the compiler makes of the code is part of the spread.
      const setup = { candidate: 'ours-memory', urls: [], settings: usualSettings } as const;
      const process = await context.launch(setup);
      try {
        const { plain, using, locked } = await process.run('overhead', { calls }, LIMIT);
        samples.plain.push(sampleOf(plain, null));
        samples.using.push(sampleOf(using, plain));
        samples.locked.push(sampleOf(locked, using));
      } finally {
        await process.stop();
      }
    }
    const rows: Row[] = [
      { ...rowOf('ours-memory', samples.plain, null), candidate: 'plain', label: 'plain call' },
      { ...rowOf('ours-memory', samples.using, null), candidate: 'using', label: 'using' },
      { ...rowOf('ours-memory', samples.locked, null), candidate: 'locked', label: '@Locked' },
    ];
    return [{ title: '', rows }];
  },
};

const LIMIT = 60_000;

function sampleOf({ heap, time }: Cost, base: Cost | null): Sample {
  return { time, heap, ...(base === null ? {} : { added: time - base.time }) };
}
