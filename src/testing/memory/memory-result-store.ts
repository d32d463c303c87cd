import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { MemoryOutboxStore } from './memory-outbox-store.ts';

const NOTHING = { ending: null, result: null, error: null, why: null } as const;

/** Reads outcomes where the ledger's steps wrote them; with access to the outbox it also knows which tasks are pending. */
export class MemoryResultStore implements ResultStore {
  readonly #ledger: MemoryLedger;
  readonly #outbox: MemoryOutboxStore | null;

  constructor(ledger: MemoryLedger, outbox: MemoryOutboxStore | null = null) {
    this.#ledger = ledger;
    this.#outbox = outbox;
  }

  async read(id: string): Promise<ResultRecord> {
    const record = this.#ledger.state.records.get(id);
    if (record === undefined) return this.#outsideTheLedger(id);
    const { state, ending, result, error, why } = record;
    return { state, ending, result: result?.slice() ?? null, error, why };
  }

  #outsideTheLedger(id: string): ResultRecord {
    const dead = this.#outbox?.deadLetters.get(id);
    if (dead !== undefined) {
      const message = dead.lastError ?? '';
      const error = { type: 'relay', message, traceback: '' };
      return { state: 'dead', ending: 'dead', result: null, error, why: 'relay' };
    }
    const rows = [...(this.#outbox?.rows.values() ?? [])];
    return { state: rows.some(row => row.envelope.id === id) ? 'pending' : 'unknown', ...NOTHING };
  }
}
