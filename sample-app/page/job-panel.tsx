import type { JobEvent, JobState } from '../lab/messages.js';
import { isWorking } from '../lab/phases.js';
import { Bar, inSeconds } from './bar.js';
import { canBreakNodes, clock, job, leftOf } from './lab-state.js';
import { healNodes, send, treat } from './requests.js';

/** A long job under the watchdog. */
export function JobPanel() {
  const state = job.value;
  return (
    <section class="panel" id="job" aria-labelledby="job-title">
      <header class="panel-head">
        <h2 id="job-title">A long job</h2>
        {state !== null && (
          <p class="verdict" role="status">
            {PHASES[state.phase]}
          </p>
        )}
      </header>
      {state !== null && <Job state={state} />}
    </section>
  );
}

function Job({ state }: { readonly state: JobState }) {
  const { validity, ttl, token, extensions, step, steps, story } = state;
  const remaining = validity === null ? 0 : leftOf(validity.remaining, validity.at, clock.value);
  return (
    <>
      <p class="validity">
        <span>valid for</span> <strong>{inSeconds(remaining)}</strong>
      </p>
      <Bar label="Validity of the job's lock" kind="good" value={remaining} max={ttl} />
      <dl class="facts wide">
        <dt>step</dt>
        <dd>
          {step} of {steps}
        </dd>
        <dt>extended</dt>
        <dd>{extensions} ×</dd>
        <dt>fencing token</dt>
        <dd class="mono">{token ?? '—'}</dd>
      </dl>
      <div class="buttons">
        {isWorking(state) ? (
          <button type="button" class="primary" onClick={() => send('/lab/job/stop')}>
            Stop the job
          </button>
        ) : (
          <button type="button" class="primary" onClick={() => send('/lab/job/start')}>
            Start the job
          </button>
        )}
        {canBreakNodes.value && (
          <>
            <button type="button" onClick={() => treat([1, 2, 3], 'freeze')}>
              Freeze three nodes
            </button>
            <button type="button" onClick={healNodes}>
              Heal all
            </button>
          </>
        )}
      </div>
      <Story story={story} />
    </>
  );
}

function Story({ story }: { readonly story: readonly JobEvent[] }) {
  if (story.length === 0) {
    return (
      <p class="small">
        It works for a minute under a lock of 3 s, which the watchdog extends every second. Freeze
        three nodes meanwhile.
      </p>
    );
  }
  return (
    <ol class="story" aria-label="What happened to the job">
      {story.map(({ kind, at, text }) => (
        <li key={`${at} ${text}`} class={kind}>
          <span class="mark">{MARKS[kind]}</span>
          <span>{text}</span>
        </li>
      ))}
    </ol>
  );
}

const PHASES: Record<JobState['phase'], string> = {
  idle: 'not started',
  waiting: 'waits for its lock',
  running: '● works',
  'taking over': '▲ lock lost; the next holder waits',
  done: '✓ done',
  stopped: 'stopped',
};

const MARKS: Record<JobEvent['kind'], string> = {
  acquired: '▶',
  aborted: '▲',
  stopped: '■',
  refused: '✕',
  written: '!',
  done: '✓',
};
