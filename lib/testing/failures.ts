import type { FailedAnswer } from '../core/lock-node.js';

/** The answer that a fault gives in place of the node's own, by fault. */
export const failures = {
  down: {
    vote: 'failed',
    mayHold: false,
    isMisconfiguration: false,
    message: 'the connection is not ready',
  },
  answerOdd: {
    vote: 'failed',
    mayHold: true,
    isMisconfiguration: false,
    message: 'the connection was lost after the request was sent',
  },
  misconfigured: {
    vote: 'failed',
    mayHold: false,
    isMisconfiguration: true,
    message: 'WRONGPASS invalid username-password pair or user is disabled.',
  },
} as const satisfies Record<string, FailedAnswer>;
