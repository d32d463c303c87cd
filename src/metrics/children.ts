import { mergeSnapshots, withoutGauges } from './merge.ts';
import type { Snapshot } from './registry.ts';

/** What the children of a supervisor have counted. Counters of a child that is gone stay: they must never fall. */
export class ChildMetrics {
  readonly #living = new Map<string, Snapshot>();
  #ended: Snapshot = {};

  record(process: string, snapshot: Snapshot): void {
    this.#living.set(process, snapshot);
  }

  gone(process: string): void {
    const last = this.#living.get(process);
    if (last === undefined) return;
    this.#living.delete(process);
    this.#ended = mergeSnapshots([this.#ended, withoutGauges(last)]);
  }

  /** Together with what the supervisor has counted itself. */
  with(own: Snapshot): Snapshot {
    return mergeSnapshots([own, this.#ended, ...this.#living.values()]);
  }
}
