import type { FailedAnswer } from '../core/lock-node.js';

/** What a server's error reply means for a vote. Source: PROTOCOL.md section 11. */
export function outcomeOfError(reply: string): FailedAnswer {
  const message = printable(reply.replace(WRAPPING, '').replace(PLACE, ''));
  const code =
    /^(ERR (unknown command|(invalid )?DB index)|[A-Z]+)(?= |$)/.exec(message)?.[0] ?? '';
  const isMisconfiguration = MISCONFIGURATIONS.has(code);
  return {
    vote: 'failed',
    mayHold: !isMisconfiguration && !REFUSALS.has(code),
    isMisconfiguration: isMisconfiguration || DENIED.test(message),
    message,
  };
}

/** A server's words for logs and errors: one line, no control characters, of limited length. */
export function printable(words: string): string {
  return words.slice(0, 500).replace(/\p{Cc}+/gu, ' ');
}

/** The command was written and has no answer that makes sense: nobody knows whether it ran. */
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

/** The server would not lock: no answer was lost, and the connection need not end for it. */
export function isRefusal(outcome: FailedAnswer): boolean {
  if (isUnknownScript(outcome) || isReadOnly(outcome)) return false;
  return outcome.isMisconfiguration || !outcome.mayHold;
}

/** The node has become a replica: this connection will never write again. */
export function isReadOnly(outcome: FailedAnswer): boolean {
  return outcome.message.startsWith('READONLY');
}

/** What servers before Redis 7 put around the error of a command in a script. */
const WRAPPING = /^(ERR Error running script .*?: )?(@user_script: ?\d+: )+-?/;

/** What Redis puts behind it since 7: the place in the script. One fault shows in many places. */
const PLACE = / script: [0-9a-f]{40}, on @user_script:\d+\.$/;

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
  'ERR unknown command',
  'ERR DB index',
  'ERR invalid DB index',
]);

/**
 * A misconfiguration too, but one that shows in the middle of a script, which may have written:
 * rights on keys are checked before the script, those on commands at each command. The last two
 * are said of a missing right, the first by Redis 6 and 7.0, the other by later ones and Valkey.
 */
const DENIED =
  /^(ERR )?(unknown redis command|the user executing the script can't|ACL failure in script)/i;
