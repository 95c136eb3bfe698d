// Limit: a bare socket that calls our scripts instead of SET, for a lock by itself. What it takes
// beyond the bare socket is the servers' part; what we take beyond that is the client's.
import type { Socket } from 'node:net';

import { resolveOptions } from '../../lib/core/options.js';
import type { World } from '../../lib/core/lock-node.js';
import { ownerArguments, type BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';
import { scriptsOf, type RedisScript, type RedisScripts } from '../../lib/nodes/redis-scripts.js';
import { BareNode, commandOf, connectSockets } from './bare-socket.js';
import type { Connect } from './candidate.js';
import type { LimitScript, OnWord } from './quorum-limit.js';

/** For locks that nobody else wants: fails when the first is refused. */
export function connectScriptSocket(fencing: boolean): Connect {
  const { world } = resolveOptions({ fencing, quarantine: false }, 1);
  return connectSockets((socket) => new ScriptNode(socket, world));
}

class ScriptNode extends BareNode {
  readonly #scripts: RedisScripts;

  constructor(
    socket: Socket,
    private readonly world: World,
  ) {
    super(socket);
    this.#scripts = scriptsOf(world, false);
  }

  override set(resource: string, ownerId: string, ttl: number, onWord: OnWord): void {
    const token = Math.floor((performance.timeOrigin + performance.now()) * 1_000);
    const request = { world: this.world, resources: [resource], ownerId, token, ttl };
    // Granted: the node's time, or 0 without fencing.
    this.#call({ name: 'acquire', request }, (word) => onWord(word !== null));
  }

  override run(
    _script: LimitScript,
    resource: string,
    ownerId: string,
    ttl: number,
    onWord: OnWord,
  ): void {
    const { world } = this;
    const request = { world, resources: [resource], ownerId, token: 1, ttl, wakes: true };
    this.#call({ name: 'release', request, isListening: false }, onWord);
  }

  protected override scripts(): readonly RedisScript[] {
    return [this.#scripts.acquire, this.#scripts.release];
  }

  #call(operation: BatchedOperation, onWord: OnWord): void {
    const { sha } = this.#scripts[operation.name];
    this.write(commandOf('evalsha', sha, ...ownerArguments(0, operation).map(String)), onWord);
  }
}
