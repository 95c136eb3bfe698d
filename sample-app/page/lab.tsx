import { connection, nodes, quarantined, setting, voters } from './lab-state.js';
import { JobPanel } from './job-panel.js';
import { LogPanel } from './log-panel.js';
import { NodesPanel } from './nodes-panel.js';
import { complaint } from './requests.js';
import { SalePanel } from './sale-panel.js';
import { Timeline } from './timeline.js';
import { Tour } from './tour.js';
import { TryPanel } from './try-panel.js';

/** The whole page. */
export function Lab() {
  return (
    <>
      <header class="page-head">
        <img src="./lock.svg" alt="" width="40" height="40" />
        <div>
          <h1>Lock lab</h1>
          <p>
            <code>@Locked</code> of nestjs-locked over {nodeCount()}, live
          </p>
        </div>
        <Connection />
      </header>
      <main>
        <Tour />
        <div class="columns">
          <div class="column">
            <SalePanel />
            <Timeline />
            <NodesPanel />
          </div>
          <div class="column side">
            <JobPanel />
            <TryPanel />
          </div>
          <LogPanel />
        </div>
      </main>
      <Notice />
    </>
  );
}

function nodeCount(): string {
  const { length } = nodes.value;
  return length === 1 ? '1 node' : `${length || 'some'} nodes`;
}

function Connection() {
  const texts = {
    connecting: '… connecting',
    open: '● live',
    lost: '✕ no connection, trying again',
  };
  return (
    <p class={`connection ${connection.value}`} role="status">
      {texts[connection.value]}
    </p>
  );
}

/** What everybody has to know right now, shown above all else. */
function Notice() {
  const text = noticeNow();
  return (
    <div class="notices" role="alert">
      {complaint.value !== '' && (
        <p class="notice">
          {complaint.value}
          <button type="button" onClick={() => (complaint.value = '')}>
            Close
          </button>
        </p>
      )}
      {text !== '' && <p class="notice">{text}</p>}
    </div>
  );
}

function noticeNow(): string {
  if (connection.value === 'lost') {
    return 'The server cannot be reached. What you see is how it was before.';
  }
  if (setting.value === null) return '';
  const { noSaleReason, quorum } = setting.value;
  if (noSaleReason !== '') return noSaleReason;
  if (voters.value >= quorum) return '';
  if (voters.value + quarantined.value >= quorum) {
    return (
      'Too many nodes are new: they do not vote yet, as a node that has restarted may have ' +
      'forgotten locks that are still held. In a few seconds they do.'
    );
  }
  const count = voters.value === 1 ? '1 node votes' : `${voters.value} nodes vote`;
  return `No quorum: ${count}, ${quorum} are needed. Nobody gets a lock until more of them do.`;
}
