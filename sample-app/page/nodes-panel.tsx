import { useSignal, type Signal } from '@preact/signals';

import type { NodeState, WatchedResource } from '../lab/messages.js';
import { Bar, inSeconds } from './bar.js';
import { clock, leftOf, nodes, quarantineOf, resources, setting, voters } from './lab-state.js';
import { treat, type Treatment } from './requests.js';

/** The Redis nodes: how they are, what they know of one resource, and how to break them. */
export function NodesPanel() {
  const chosen = useSignal('sale');
  const watched = resources.value.find(({ resource }) => resource === chosen.value);
  return (
    <section class="panel" aria-labelledby="nodes-title">
      <header class="panel-head">
        <h2 id="nodes-title">Nodes</h2>
        <p>
          {voters.value} of {nodes.value.length} vote, {setting.value?.quorum ?? 0} are a quorum
        </p>
        <Choice chosen={chosen} />
      </header>
      <ol class="nodes">
        {nodes.value.map((node, index) => (
          <NodeCard key={index} number={index + 1} node={node} watched={watched} />
        ))}
      </ol>
    </section>
  );
}

function Choice({ chosen }: { readonly chosen: Signal<string> }) {
  return (
    <label class="choice">
      <span>Resource</span>
      <select value={chosen.value} onChange={(event) => (chosen.value = event.currentTarget.value)}>
        {resources.value.map(({ resource }) => (
          <option key={resource} value={resource}>
            {resource}
          </option>
        ))}
      </select>
    </label>
  );
}

interface NodeProps {
  readonly number: number;
  readonly node: NodeState;
  readonly watched: WatchedResource | undefined;
}

function NodeCard({ number, node, watched }: NodeProps) {
  const quarantine = quarantineOf(node, clock.value);
  const badge = badgeOf(node, quarantine);
  const { latency, votesPerSecond, delay } = node;
  return (
    <li class="node" data-node={number}>
      <h3>Node {number}</h3>
      <p class="mono small">{node.name.replace(/^redis:\/\/|\/0$/g, '')}</p>
      {node.process !== null && <p class="small">process {node.process}</p>}
      <p class={`badge ${badge.kind}`} data-state>
        {badge.text}
      </p>
      <div class={quarantine > 0 ? 'countdown small' : 'countdown small is-over'}>
        <Bar
          label={`Quarantine of node ${number}`}
          kind="warn"
          value={quarantine}
          max={setting.value?.ttlMax ?? 1}
        />
        {inSeconds(quarantine)}
      </div>
      <dl class="facts">
        <dt>votes/s</dt>
        <dd>{votesPerSecond}</dd>
        <dt>answers in</dt>
        <dd>
          {latency === null ? '—' : `${latency.toFixed(1)} ms`}
          {delay > 0 && ` (+${delay})`}
        </dd>
      </dl>
      <Holder number={number} watched={watched} />
      {node.process !== null && <Treatments number={number} node={node} />}
    </li>
  );
}

function badgeOf({ status }: NodeState, quarantine: number): { text: string; kind: string } {
  switch (status.state) {
    case 'up':
      if (quarantine === 0) return { text: '● up', kind: 'good' };
      return { text: '◔ quarantined', kind: 'warn' };
    case 'suspended':
      return { text: '❙❙ suspended', kind: 'warn' };
    case 'connecting':
      return { text: '… connecting', kind: 'warn' };
    case 'down':
      return { text: '✕ down', kind: 'bad' };
    case 'refused':
      return { text: '✕ refused', kind: 'bad' };
  }
}

function Holder({ number, watched }: Pick<NodeProps, 'number' | 'watched'>) {
  const holder = watched?.nodes[number - 1];
  if (watched === undefined || holder === undefined) return <p class="holder small">…</p>;
  const remaining = holder.state === 'held' ? leftOf(holder.remaining, watched.at, clock.value) : 0;
  const texts = { free: 'free', unknown: 'no answer', held: '' };
  return (
    <div class="holder small">
      <p>
        <span class="mono">{watched.resource}</span>: {texts[holder.state]}
        {holder.state === 'held' && `${holder.owner ?? 'another client'} `}
        {holder.ownerId !== null && <span class="mono">…{holder.ownerId.slice(-6)}</span>}
      </p>
      <div class="countdown">
        <Bar
          label={`ttl of ${watched.resource} on node ${number}`}
          kind="held"
          value={remaining}
          max={setting.value?.ttlMax ?? 1}
        />
        {inSeconds(remaining)}
      </div>
    </div>
  );
}

function Treatments({ number, node }: { readonly number: number; readonly node: NodeState }) {
  const isFrozen = node.process === 'frozen';
  const isKilled = node.process === 'killed';
  const isSlow = node.delay > 0;
  const button = (text: string, treatment: Treatment, isDisabled = false) => (
    <button
      type="button"
      disabled={isDisabled}
      aria-label={`${text} node ${number}`}
      onClick={() => treat([number], treatment)}
    >
      {text}
    </button>
  );
  return (
    <div class="buttons" role="group" aria-label={`What to do to node ${number}`}>
      {isFrozen ? button('Thaw', 'thaw') : button('Freeze', 'freeze', isKilled)}
      {button('Kill', 'kill', isKilled)}
      {button('Restart', 'restart')}
      {isSlow ? button('Undelay', 'quick') : button('+50 ms', 'slow')}
    </div>
  );
}
