import type { SaleSettings, SaleState } from '../lab/messages.js';
import { isSelling } from '../lab/phases.js';
import { saleLimits } from '../lab/sale-limits.js';
import { NumberField, Switch } from './form-fields.js';
import { canSell, sale } from './lab-state.js';
import { saleEdits, send, startSale } from './requests.js';

/** The sale: its settings, and how it goes. */
export function SalePanel() {
  const state = sale.value;
  return (
    <section class="panel sale" aria-labelledby="sale-title">
      <header class="panel-head">
        <h2 id="sale-title">Sale</h2>
        {state !== null && <Verdict state={state} />}
      </header>
      {state !== null && (
        <div class="sale-body">
          <Form state={state} />
          <Figures state={state} />
        </div>
      )}
    </section>
  );
}

function Form({ state }: { readonly state: SaleState }) {
  const isBusy = isSelling(state);
  // The settings of the sale that runs or ran last, wherever it was started.
  const settings = { ...state.settings, ...saleEdits.value };
  const change = (edit: Partial<SaleSettings>): void => {
    saleEdits.value = { ...saleEdits.value, ...edit };
  };
  const field = (name: keyof typeof saleLimits, label: string) => (
    <NumberField
      name={name}
      label={label}
      {...saleLimits[name]}
      value={settings[name]}
      isDisabled={isBusy}
      onChange={(value) => change({ [name]: value })}
    />
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void (isBusy ? send('/lab/sale/stop') : startSale(settings));
      }}
    >
      <div class="fields">
        {field('stock', 'Stock')}
        {field('buyers', 'Buyers')}
        {field('replicas', `Replicas, 1 to ${saleLimits.replicas.max}`)}
        {field('section', 'Time inside, ms')}
      </div>
      <div class="switches">
        <Switch
          name="isLocked"
          isOn={settings.isLocked}
          isDisabled={isBusy}
          onChange={(isLocked) => change({ isLocked })}
        >
          <code>@Locked</code> {settings.isLocked ? 'on' : 'off'}
        </Switch>
        <Switch
          name="isEndless"
          isOn={settings.isEndless}
          isDisabled={isBusy}
          onChange={(isEndless) => change({ isEndless })}
        >
          restock and go on
        </Switch>
      </div>
      <button type="submit" class="primary" disabled={!canSell.value || state.phase === 'stopping'}>
        {isBusy ? 'Stop' : 'Start'}
      </button>
    </form>
  );
}

function Figures({ state }: { readonly state: SaleState }) {
  const { sold, refused, oversold, offered, waiting, comeAgain, rounds } = state;
  return (
    <div class="figures">
      <dl>
        <Figure name="Sold" value={sold} note={`of ${offered} offered`} />
        <Figure name="Refused" value={refused} note="told that nothing is left" />
        <Figure
          name="Oversold"
          value={oversold}
          note={oversold > 0 ? '▲ sold, and never there' : '✓ none'}
          kind={oversold > 0 ? 'bad' : 'good'}
        />
      </dl>
      <progress
        aria-label="Sold of what is offered"
        max={Math.max(1, offered)}
        value={Math.min(sold, offered)}
      />
      <p class="small">
        {waiting} without an answer · {comeAgain} times told to come again (423, 503) · round{' '}
        {rounds}
      </p>
    </div>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: number;
  readonly note: string;
  readonly kind?: 'good' | 'bad';
}

function Figure({ name, value, note, kind }: FigureProps) {
  return (
    <div class={`figure ${kind ?? ''}`}>
      <dt>{name}</dt>
      <dd
        class="value"
        data-figure={name.toLowerCase()}
        style={{ '--digits': String(value).length }}
      >
        {value}
      </dd>
      <dd class="note">{note}</dd>
    </div>
  );
}

function Verdict({ state }: { readonly state: SaleState }) {
  return (
    <p class={`verdict ${state.oversold + state.stillOnSale > 0 ? 'bad' : ''}`} role="status">
      {verdictOf(state)}
    </p>
  );
}

function verdictOf(state: SaleState): string {
  const { phase, sold, offered, oversold, stillOnSale, settings, message } = state;
  const how = settings.isLocked ? 'with @Locked' : 'without a lock';
  switch (phase) {
    case 'idle':
      return 'Nothing sold yet';
    case 'starting':
      return 'Starting the replicas…';
    case 'running':
      return `Selling ${how}`;
    case 'stopping':
      return 'Stopping: the last buyers get their answers';
    case 'failed':
      return `✕ ${message}`;
    case 'stopped':
    case 'done':
      if (oversold > 0) return `▲ Oversold ${how}: ${oversold} too many`;
      if (stillOnSale > 0) return `▲ ${sold} sold ${how}, ${stillOnSale} of them still on sale`;
      return sold === offered
        ? `✓ Sold exactly the stock, ${how}`
        : `✓ ${sold} sold, none too many`;
  }
}
