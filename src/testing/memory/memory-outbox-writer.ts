import {
  envelopeOf,
  rowVersionOf,
  type NewTask,
  type OutboxWriter,
  type WriteAnswer,
} from '../../outbox/outbox-writer.ts';
import { isLimited } from '../../admission/limits.ts';
import { toBytes } from '../../task/json.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { MemoryOutboxStore } from './memory-outbox-store.ts';
import type { MemoryTransaction } from './memory-transaction.ts';

/** As in SQL: a second send with the same key returns the first task's handle for this long. */
const KEY_WINDOW_MS = 86_400_000;

interface HeldKey {
  readonly id: string;
  readonly fingerprint: string;
  readonly freeMs: number;
}

/** What one transaction has written and not yet committed: it sees its own rows. */
interface Staged {
  readonly keys: Map<string, HeldKey>;
  readonly digests: Map<string, string>;
}

/** The sender's side in RAM, with the answers of the SQL writers. With a ledger, a task that needs no relay is put there. */
export class MemoryOutboxWriter implements OutboxWriter<MemoryTransaction> {
  readonly #outbox: MemoryOutboxStore;
  readonly #ledger: MemoryLedger | null;
  readonly #keys = new Map<string, HeldKey>();
  readonly #staged = new WeakMap<MemoryTransaction, Staged>();

  constructor(outbox: MemoryOutboxStore, ledger: MemoryLedger | null = null) {
    this.#outbox = outbox;
    this.#ledger = ledger;
  }

  async write(tx: MemoryTransaction, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]> {
    return tasks.map(task => this.#writeOne(tx, task));
  }

  async isInTransaction(): Promise<boolean> {
    return true;
  }

  #writeOne(tx: MemoryTransaction, task: NewTask): WriteAnswer {
    const none: Staged = { keys: new Map(), digests: new Map() };
    const staged = this.#staged.get(tx) ?? none;
    this.#staged.set(tx, staged);
    const { id, idempotencyKey: key, fingerprint } = task;
    const held = key === null ? undefined : (staged.keys.get(key) ?? this.#heldBy(key));
    if (held !== undefined)
      return held.fingerprint === fingerprint
        ? { kind: 'earlier', id: held.id }
        : { kind: 'key-mismatch' };
    const straight = needsRelay(task) ? null : this.#ledger;
    const digest = staged.digests.get(id) ?? this.#digestOf(id) ?? recordedDigest(straight, id);
    if (digest !== undefined && digest !== null)
      return digest === task.digest ? { kind: 'earlier', id } : { kind: 'id-mismatch' };
    staged.digests.set(id, task.digest);
    const freeMs = this.#outbox.nowMs + KEY_WINDOW_MS;
    if (key !== null) staged.keys.set(key, { id, fingerprint, freeMs });
    tx.write(() => {
      // Another transaction with the same key was committed first: SQL would have made this one wait for it.
      if (key !== null && this.#heldBy(key) !== undefined) return;
      if (key !== null) this.#keys.set(key, { id, fingerprint, freeMs });
      if (straight !== null) return straight.send(envelopeOf(task));
      const { orderingKey, parksKey, redacted } = task;
      const extras = { orderingKey, parksKey, redacted, rowVersion: rowVersionOf(task) };
      this.#outbox.insert(envelopeOf(task), extras);
    });
    return digest === null ? { kind: 'earlier', id } : { kind: 'new' };
  }

  #heldBy(key: string): HeldKey | undefined {
    const held = this.#keys.get(key);
    const isFree = held !== undefined && held.freeMs <= this.#outbox.nowMs;
    return isFree && this.#digestOf(held.id) === undefined && !this.#isFresh(held.id)
      ? undefined
      : held;
  }

  /** It waits and was never begun. */
  #isFresh(id: string): boolean {
    const record = this.#ledger?.state.records.get(id);
    return record?.state === 'waiting' && record.epoch === 0;
  }

  #digestOf(id: string): string | undefined {
    const rows = [...this.#outbox.rows.values()];
    return rows.find(({ envelope }) => envelope.id === id)?.envelope.digest;
  }
}

const needsRelay = (task: NewTask): boolean =>
  task.orderingKey !== null || isLimited(toBytes(task.settings));

/** Null: cancelled before it came. Undefined: the ledger does not know the id, or is not here. */
function recordedDigest(ledger: MemoryLedger | null, id: string): string | null | undefined {
  const record = ledger?.state.records.get(id);
  return record === undefined ? undefined : (record.envelope?.digest ?? null);
}
