import { element } from './random.js';
import type { Fault } from './fault-plan.js';
import type { Link } from './link.js';
import type { SimulatedServer } from './simulated-server.js';
import type { Client, Universe } from './universe.js';

type FaultOf<Kind extends Fault['kind']> = Extract<Fault, { kind: Kind }>;

/** Makes the faults of a plan happen, and ends them. */
export class FaultInjector {
  readonly counts = new Map<string, number>();
  readonly #steppedBack = new Map<number, number>();
  #isHealed = false;

  constructor(private readonly universe: Universe) {}

  schedule(faults: readonly Fault[]): void {
    for (const fault of faults) {
      if (fault.kind === 'crash') {
        this.#at(Math.max(0, fault.at - fault.lag), () => this.#server(fault).saveCopy());
      }
      this.#at(fault.at, () => {
        this.begin(fault);
      });
    }
  }

  /** Makes a fault happen now, whatever its `at` says. */
  begin(fault: Fault): void {
    this.counts.set(fault.kind, (this.counts.get(fault.kind) ?? 0) + 1);
    this.universe.note('FAULT', JSON.stringify(fault));
    this.#begin(fault);
  }

  /** Ends what is still going on. Clocks stay as they are. */
  heal(): void {
    this.#isHealed = true;
    this.universe.note('FAULT', 'all faults end');
    for (const server of this.universe.servers) {
      server.refusal = null;
      server.resume();
      if (!server.isUp) server.restart('kept');
      // For the rest of time, clocks that ran apart would run out of the window of tokens.
      server.clock.setRate(this.universe.scheduler.now, 1);
    }
    for (const { links } of this.universe.clients) {
      for (const link of links) {
        link.extraDelay = 0;
        link.duplicateDelay = null;
        link.unblock();
      }
    }
  }

  #begin(fault: Fault): void {
    switch (fault.kind) {
      case 'hang':
        this.#server(fault).hang();
        this.#end(fault, () => this.#server(fault).resume());
        break;
      case 'crash':
        this.#crash(fault);
        break;
      case 'flush':
        this.#server(fault).flush();
        break;
      case 'refuse':
        this.#server(fault).refusal = fault.refusal;
        this.#end(fault, () => (this.#server(fault).refusal = null));
        break;
      case 'driftNode':
        this.#server(fault).clock.setRate(this.universe.scheduler.now, fault.rate);
        break;
      case 'stepNode':
        this.#stepNode(fault.node, fault.delta);
        break;
      case 'stranger':
        this.#leaveKey(fault);
        break;
      default:
        this.#beginAtClient(fault);
    }
  }

  #beginAtClient(fault: Extract<Fault, { client: number }>): void {
    const client = element(this.universe.clients, fault.client);
    const { machine } = client;
    switch (fault.kind) {
      case 'pause':
        machine.pause(fault.duration);
        break;
      case 'pauseAtRead':
        machine.pauseAtRead(fault.read, fault.duration);
        break;
      case 'cutAtCommand':
        machine.atCommand(fault.command, () => {
          this.#cut(fault, client);
        });
        break;
      case 'pauseAtCommand':
        machine.atCommand(fault.command, () => {
          machine.pause(fault.duration);
        });
        break;
      case 'suspend':
        machine.suspend(fault.duration);
        break;
      case 'stepClient':
        machine.wall.step(machine.trueNow, fault.delta);
        break;
      case 'crashClient':
        client.process.end();
        this.#at(this.universe.scheduler.now + fault.duration, () => {
          this.universe.startProcess(client);
        });
        break;
      case 'closeClient':
        this.#close(client);
        break;
      case 'giveUp':
        machine.run(() => client.process.giveUp());
        break;
      case 'isolate':
        for (const link of client.links) link.block('both');
        this.#end(fault, () => client.links.forEach((link) => link.unblock()));
        break;
      default:
        this.#beginOnLink(fault, element(client.links, fault.node));
    }
  }

  #beginOnLink(fault: FaultOf<'partition' | 'slow' | 'repeat' | 'reset'>, link: Link): void {
    switch (fault.kind) {
      case 'partition':
        link.block(fault.direction);
        this.#end(fault, () => link.unblock());
        break;
      case 'slow':
        link.extraDelay = fault.delay;
        this.#end(fault, () => (link.extraDelay = 0));
        break;
      case 'repeat':
        link.duplicateDelay = fault.delay;
        this.#end(fault, () => (link.duplicateDelay = null));
        break;
      case 'reset':
        link.reset();
    }
  }

  #cut(fault: FaultOf<'cutAtCommand'>, client: Client): void {
    if (this.#isHealed) return;
    this.universe.note('FAULT', `now: ${JSON.stringify(fault)}`);
    for (const node of fault.nodes) {
      const link = element(client.links, node);
      if (fault.effect === 'reset') link.reset();
      else {
        link.block(fault.effect);
        this.#end(fault, () => link.unblock());
      }
    }
  }

  #crash(fault: FaultOf<'crash'>): void {
    const { universe } = this;
    const server = this.#server(fault);
    if (!server.isUp) return;
    server.crash();
    for (const { links } of universe.clients)
      element(links, fault.node).serverCrashed(fault.isSilent);
    this.#end(fault, () => {
      if (server.isUp) return;
      server.restart(fault.memory);
      this.#stepNode(fault.node, fault.clockShift);
    });
  }

  // A node's clock never steps back by more than S in all: PROTOCOL.md section 8.
  #stepNode(node: number, delta: number): void {
    const { plan, servers, scheduler } = this.universe;
    const skewMax = Math.min(2_000, plan.ttlMax / 3);
    const stepMax = plan.guarantee === 'wild' ? skewMax : skewMax / 8;
    const before = this.#steppedBack.get(node) ?? 0;
    const after = Math.max(-stepMax, before + delta);
    this.#steppedBack.set(node, plan.guarantee === 'wild' ? Math.min(0, after) : after);
    element(servers, node).clock.step(scheduler.now, after - before);
  }

  #close(client: Client): void {
    const { process } = client;
    if (process.isEnded || process.isClosing) return;
    process.isClosing = true;
    client.machine.run(() => {
      void process.track('close', 200 + 1_000 + 600, process.redlock.close());
    });
  }

  #leaveKey({ node, resource, duration }: FaultOf<'stranger'>): void {
    const { clock, model } = element(this.universe.servers, node);
    const expiresAt = clock.read(this.universe.scheduler.now) + duration;
    model.data.set(resource, { value: 'stranger', expiresAt });
  }

  #server({ node }: { readonly node: number }): SimulatedServer {
    return element(this.universe.servers, node);
  }

  #end(fault: { readonly duration: number }, end: () => void): void {
    this.#at(this.universe.scheduler.now + fault.duration, end);
  }

  #at(time: number, action: () => void): void {
    this.universe.scheduler.at(time, () => {
      if (!this.#isHealed) action();
    });
  }
}
