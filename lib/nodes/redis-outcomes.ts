import type { FailedAnswer } from '../core/lock-node.js';

/**
 * What a server's error reply means for a vote. Source: PROTOCOL.md section 11. Servers before
 * Redis 7 wrap errors of a script's commands in one of the script: those count as "any other".
 */
export function outcomeOfError(message: string): FailedAnswer {
  const code = /^[A-Z]+(?= |$)/.exec(message)?.[0] ?? '';
  const isMisconfiguration = MISCONFIGURATIONS.has(code) || MISCONFIGURED.test(message);
  return {
    vote: 'failed',
    mayHold: !isMisconfiguration && !REFUSALS.has(code),
    isMisconfiguration,
    message,
  };
}

/** The connection ended after the command was written: nobody knows whether it ran. */
export function lostOutcome(message: string): FailedAnswer {
  return { vote: 'failed', mayHold: true, isMisconfiguration: false, message };
}

/** Nothing was sent. */
export function unsentOutcome(message: string, isMisconfiguration = false): FailedAnswer {
  return { vote: 'failed', mayHold: false, isMisconfiguration, message };
}

/** The server does not know the script's hash; nothing ran. */
export function isUnknownScript(outcome: FailedAnswer): boolean {
  return outcome.message.startsWith('NOSCRIPT');
}

/** The node has become a replica: this connection will never write again. */
export function isReadOnly(outcome: FailedAnswer): boolean {
  return outcome.message.startsWith('READONLY');
}

/** Refused before the first write of a script, for a time. */
const REFUSALS = new Set([
  'NOSCRIPT',
  'READONLY',
  'LOADING',
  'MASTERDOWN',
  'NOREPLICAS',
  'MISCONF',
  'OOM',
  'BUSY',
  'TRYAGAIN',
  'CLUSTERDOWN',
]);

/** Refused until somebody changes the configuration. */
const MISCONFIGURATIONS = new Set([
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'MOVED',
  'ASK',
  'CROSSSLOT',
  'WRONGTYPE',
]);

/**
 * The same, where the server names no code. The last two are said to a script without a right: by
 * Redis 7.0, and by later ones and Valkey.
 */
const MISCONFIGURED = new RegExp(
  '^ERR (unknown (redis )?command|(invalid )?DB index|' +
    "the user executing the script can't|ACL failure in script)",
  'i',
);
