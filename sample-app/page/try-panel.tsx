import { signal } from '@preact/signals';

import { clock, serverNow, setting } from './lab-state.js';
import { Bar } from './nodes-panel.js';
import { readAnswer, type Answer, type Call } from './http-call.js';
import type { HandLock } from '../lab/hand-locks.js';

const resource = signal('demo');
const ttl = signal(5_000);
const wait = signal(0);
const watchdog = signal(false);
const answer = signal<Answer | null>(null);
/** The lock that was acquired last, and until when it is valid. */
const lock = signal<(HandLock & { readonly until: number }) | null>(null);
const isCopied = signal(false);

/** Locks by hand, with the answers as a client gets them. */
export function TryPanel() {
  const remaining = lock.value === null ? 0 : Math.max(0, lock.value.until - clock.value);
  return (
    <section class="panel try" aria-labelledby="try-title">
      <header class="panel-head">
        <h2 id="try-title">Try it</h2>
        <p class="verdict">
          {lock.value !== null && remaining > 0
            ? `you hold ${lock.value.resource}`
            : 'you hold nothing'}
        </p>
      </header>
      <Form hasLock={lock.value !== null} />
      <Bar
        label="Validity of your lock"
        kind="good"
        value={remaining}
        max={setting.value?.ttlMax ?? 1}
      />
      <AnswerView answer={answer.value} />
    </section>
  );
}

function Form({ hasLock }: { readonly hasLock: boolean }) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void acquire();
      }}
    >
      <div class="fields">
        <label>
          <span>Resource</span>
          <input
            name="resource"
            required
            pattern="[\w:\-]{1,100}"
            value={resource.value}
            onInput={(event) => (resource.value = event.currentTarget.value)}
          />
        </label>
        <label>
          <span>ttl, ms</span>
          <input
            type="number"
            name="ttl"
            required
            min={100}
            max={setting.value?.ttlMax}
            value={ttl.value}
            onInput={(event) => (ttl.value = event.currentTarget.valueAsNumber)}
          />
        </label>
        <label>
          <span>wait, ms</span>
          <input
            type="number"
            name="wait"
            required
            min={0}
            max={10_000}
            value={wait.value}
            onInput={(event) => (wait.value = event.currentTarget.valueAsNumber)}
          />
        </label>
      </div>
      <label class="switch">
        <input
          type="checkbox"
          role="switch"
          checked={watchdog.value}
          onChange={(event) => (watchdog.value = event.currentTarget.checked)}
        />
        <span>watchdog: extend it for me, up to two minutes</span>
      </label>
      <div class="buttons">
        <button type="submit" class="primary">
          Acquire
        </button>
        <button type="button" disabled={!hasLock} onClick={extend}>
          Extend
        </button>
        <button type="button" disabled={!hasLock} onClick={release}>
          Release
        </button>
        <button type="button" onClick={inspect}>
          Inspect
        </button>
      </div>
      <p class="small">Acquire twice: the second is told 423, as another client would be.</p>
    </form>
  );
}

function AnswerView({ answer }: { readonly answer: Answer | null }) {
  if (answer === null) return null;
  return (
    <div class="answer" aria-live="polite">
      <div class="curl">
        <pre tabIndex={0} role="region" aria-label="The same with curl">
          {answer.curl}
        </pre>
        <button type="button" onClick={() => copy(answer.curl)}>
          {isCopied.value ? 'Copied' : 'Copy'}
        </button>
      </div>
      <pre tabIndex={0} role="region" aria-label="The answer">
        <strong class={answer.isGood ? 'good' : 'bad'}>{answer.statusLine}</strong>
        {'\n'}
        {answer.headers}
        {'\n\n'}
        {answer.body}
      </pre>
    </div>
  );
}

async function acquire(): Promise<void> {
  const body = { ttl: ttl.value, wait: wait.value, watchdog: watchdog.value };
  keep(await ask({ path: `${path()}/acquire`, body }));
}

async function extend(): Promise<void> {
  if (lock.value === null) return;
  const { ownerId, resource } = lock.value;
  const body = { ownerId, ttl: ttl.value };
  keep(await ask({ path: `/lab/locks/${encodeURIComponent(resource)}/extend`, body }));
}

async function release(): Promise<void> {
  if (lock.value === null) return;
  const { ownerId, resource } = lock.value;
  lock.value = null;
  await ask({ path: `/lab/locks/${encodeURIComponent(resource)}/release`, body: { ownerId } });
}

async function inspect(): Promise<void> {
  await ask({ path: path(), body: null });
}

function path(): string {
  return `/lab/locks/${encodeURIComponent(resource.value)}`;
}

async function ask(call: Call): Promise<Answer> {
  answer.value = await readAnswer(call);
  isCopied.value = false;
  return answer.value;
}

function keep({ isGood, body }: Answer): void {
  if (!isGood) return;
  const held = JSON.parse(body) as HandLock;
  const isExtended = watchdog.value;
  lock.value = { ...held, until: serverNow() + (isExtended ? 120_000 : held.remaining) };
}

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  isCopied.value = true;
}
