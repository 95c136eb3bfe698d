// A waiting room by itself: calls enter, get their locks and leave as a test says.
import { Waiter } from '../../lib/core/waiter.js';
import { WaitingRoom } from '../../lib/core/waiting.js';
import { TestNode, toldTo } from '../support/test-node.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { ensembleOf } from './scene.js';
import type { Milliseconds } from '../../lib/core/units.js';

export const namesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `sku:${index}`);

export function setUp() {
  const environment = new SimulatedEnvironment();
  const nodes = [0, 1, 2].map((index) => new TestNode(environment, `node-${index}`));
  const waitingRoom = new WaitingRoom(ensembleOf(environment, nodes));
  /** A call whose caller holds `held`. */
  const enterInside = (held: readonly string[], ...resources: string[]): Waiter => {
    const waiter = new Waiter(environment, resources, 1_000, true);
    waitingRoom.enter(waiter, held);
    return waiter;
  };
  const enter = (...resources: string[]): Waiter => enterInside([], ...resources);
  /** The call has got its lock now. */
  const grant = (waiter: Waiter): void => waitingRoom.hold(waiter);
  /** A call that has got its lock. */
  const hold = (...resources: string[]): Waiter => {
    const waiter = enter(...resources);
    grant(waiter);
    return waiter;
  };
  /** All nodes tell of the releases of these resources, and whoever waits has heard it. */
  const tellOf = async (resources: readonly string[], others = 1, overdue = 0): Promise<void> => {
    const told = toldTo(others, overdue);
    for (const node of nodes) for (const resource of resources) node.forgeWakeUp(resource, told);
    await environment.settle();
  };
  /** Hands the lock on as often as others may be passed over; gives who has it then. */
  const handOnToTheLimit = (first: Waiter): Waiter => {
    let holder = first;
    for (let count = 0; count < 16; count += 1) {
      const next = enter('r');
      void next.pause(1_000);
      waitingRoom.handOn(holder);
      grant(next);
      holder = next;
    }
    return holder;
  };
  /** How long it is until the call's turn. */
  const untilTurn = (waiter: Waiter): Milliseconds => {
    const turnAt = Math.max(...waiter.places.map(({ line }) => line.turns.turnAt));
    return turnAt - environment.now();
  };
  const mayTry = (waiter: Waiter): boolean => waitingRoom.mayTry(waiter);
  const moves = { enter, enterInside, grant, hold, handOnToTheLimit, tellOf };
  return { environment, nodes, waitingRoom, ...moves, mayTry, untilTurn };
}
