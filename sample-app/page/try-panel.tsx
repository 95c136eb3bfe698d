import { signal } from '@preact/signals';

import { Bar } from './bar.js';
import { NumberField, Switch } from './form-fields.js';
import { readAnswer, type Answer, type Call } from './http-call.js';
import { clock, hands, leftOf, setting } from './lab-state.js';
import type { HandLock } from '../lab/hand-locks.js';

const resource = signal('demo');
const ttl = signal(5_000);
const wait = signal(0);
const watchdog = signal(false);
const answer = signal<Answer | null>(null);
/** The lock that was acquired last. */
const lock = signal<HandLock | null>(null);
const isCopied = signal(false);

/** Locks by hand, with the answers as a client gets them. */
export function TryPanel() {
  const held = hands.value.find(({ ownerId }) => ownerId === lock.value?.ownerId);
  const remaining = held === undefined ? 0 : leftOf(held.remaining, held.at, clock.value);
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
      {/* Here from the start: screen readers are told only what changes in it. */}
      <div class="answer" aria-live="polite">
        {answer.value !== null && <AnswerView answer={answer.value} />}
      </div>
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
            title="At most 100 letters, digits, _, : and -"
            value={resource.value}
            onInput={(event) => (resource.value = event.currentTarget.value)}
          />
        </label>
        <NumberField
          name="ttl"
          label="ttl, ms"
          min={100}
          max={setting.value?.ttlMax}
          value={ttl.value}
          onChange={(value) => (ttl.value = value)}
        />
        <NumberField
          name="wait"
          label="wait, ms"
          min={0}
          max={10_000}
          value={wait.value}
          onChange={(value) => (wait.value = value)}
        />
      </div>
      <Switch name="watchdog" isOn={watchdog.value} onChange={(isOn) => (watchdog.value = isOn)}>
        watchdog: extend it for me, up to two minutes
      </Switch>
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

function AnswerView({ answer }: { readonly answer: Answer }) {
  return (
    <>
      <div class="curl">
        <pre tabIndex={0} role="region" aria-label="The same with curl">
          {answer.curl}
        </pre>
        {/* Browsers give a page no clipboard if it comes from another machine without TLS. */}
        {isSecureContext && (
          <button type="button" onClick={() => copy(answer.curl)}>
            {isCopied.value ? 'Copied' : 'Copy'}
          </button>
        )}
      </div>
      <pre tabIndex={0} role="region" aria-label="The answer">
        <strong class={answer.isGood ? 'good' : 'bad'}>{answer.statusLine}</strong>
        {'\n'}
        {answer.headers}
        {'\n\n'}
        {answer.body}
      </pre>
    </>
  );
}

async function acquire(): Promise<void> {
  const body = { ttl: ttl.value, wait: wait.value, watchdog: watchdog.value };
  keep(await ask({ path: `${pathOf(resource.value)}/acquire`, body }));
}

async function extend(): Promise<void> {
  if (lock.value === null) return;
  const { ownerId, resource } = lock.value;
  const body = { ownerId, ttl: ttl.value };
  keep(await ask({ path: `${pathOf(resource)}/extend`, body }));
}

async function release(): Promise<void> {
  if (lock.value === null) return;
  const { ownerId, resource } = lock.value;
  lock.value = null;
  await ask({ path: `${pathOf(resource)}/release`, body: { ownerId } });
}

async function inspect(): Promise<void> {
  await ask({ path: pathOf(resource.value), body: null });
}

function pathOf(resource: string): string {
  return `/lab/locks/${encodeURIComponent(resource)}`;
}

async function ask(call: Call): Promise<Answer> {
  answer.value = await readAnswer(call);
  isCopied.value = false;
  return answer.value;
}

function keep({ isGood, body }: Answer): void {
  if (isGood) lock.value = JSON.parse(body) as HandLock;
}

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  isCopied.value = true;
}
