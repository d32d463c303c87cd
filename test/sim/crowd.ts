import type { AdmissionPattern } from '../../src/config/admission.ts';
import type { Checker } from './checker.ts';
import type { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';

/** The queue of which few may run at once. */
const LIMITED = 'bulk';
const MOST = 2;

/** Limits of every run: half of the tasks are under one. */
export const LIMITS: readonly AdmissionPattern[] = [
  { kind: 'queue', name: LIMITED, rule: { rate: null, concurrency: MOST } },
];

interface Present {
  readonly id: string;
  readonly epoch: number;
}

/**
 * Counts handlers of the limited queue that run at the same time, beside the store that limits them. A process that was
 * killed or lost its task counts only as long as the ledger shows it as running.
 */
export class Crowd {
  readonly #present = new Set<Present>();
  readonly #ledger: MemoryLedger;
  readonly #checker: Checker;

  constructor(ledger: MemoryLedger, checker: Checker) {
    this.#ledger = ledger;
    this.#checker = checker;
  }

  enter(queue: string, present: Present): () => void {
    if (queue !== LIMITED) return () => undefined;
    this.#present.add(present);
    const running = [...this.#present].filter(({ id, epoch }) => {
      const record = this.#ledger.state.records.get(id);
      return record?.state === 'running' && record.epoch === epoch;
    });
    if (running.length > MOST)
      this.#checker.report('crowded', `${running.length} of ${LIMITED} run at once`);
    return () => void this.#present.delete(present);
  }
}
