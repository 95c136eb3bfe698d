import type { LogKind, LogLine } from './messages.js';
import { Recent } from './recent.js';

/** Keeps the last lines of each kind: hundreds of acquisitions must not push out a loss. */
export class LogBook {
  readonly #kinds = new Map<LogKind, Recent<LogLine>>();

  /** @param max how many lines of each kind are kept */
  constructor(private readonly max: number) {}

  /** All lines, in order of time. */
  get lines(): LogLine[] {
    return [...this.#kinds.values()].flatMap(({ values }) => values).sort((a, b) => a.at - b.at);
  }

  add(line: LogLine): void {
    const lines = this.#kinds.get(line.kind) ?? new Recent(this.max);
    this.#kinds.set(line.kind, lines);
    lines.set(line.id, line);
  }

  /** Takes all lines out. */
  drain(): LogLine[] {
    const { lines } = this;
    this.#kinds.clear();
    return lines;
  }
}
