import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { TaskState } from '../ledger/ledger.ts';
import type { ReceiptStore, SentRow } from '../outbox/receipt-store.ts';
import type { ResultStore } from '../result/result-store.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';

/** Where a relay looks up the tasks it has published. */
export interface ReceiptSources {
  readonly ledger: Pick<LedgerReads, 'states'>;
  /** Also knows the work of workers without a ledger: Python's. */
  readonly results: ResultStore;
  /** How long a task may be unknown before it is published again. */
  readonly timeoutMs: number;
  /** How long the ledger remembers a task that is over. */
  readonly dedupMs: number;
}

interface ReceiptDeps extends ReceiptSources {
  readonly store: ReceiptStore;
  readonly runtime: Runtime;
  /** Called when rows may have become due. */
  readonly onFree: () => void;
}

/** A published row is first checked after this long, and then each time its age has doubled. */
export const FIRST_LOOK_MS = 250;
const IDLE_MS = 1_000;
/** Rows per check. */
const CHUNK = 1_000;
/** Long enough for a check, short enough for the rows of a relay that died during it. */
const LEASE_MS = 10_000;
/** The wait for a receipt doubles with every publish, up to this many times. */
const MOST_DOUBLINGS = 4;
/** Delays are rounded to this many steps, so that rows of similar age share a statement. */
const STEPS = 64;

type Verdict = 'over' | 'parked' | 'again' | 'later';

/**
 * Asks the ledger about published rows. Task over: the row is deleted. Waiting or running: it stays. Unknown for longer
 * than the timeout: the broker has lost it, and it is published again. The relay asks the ledger instead of workers
 * reporting: so every ending counts, whatever caused it, nothing is lost between an ending and its receipt, and a worker
 * need not reach the sender's database.
 */
export class Receipts {
  readonly #deps: ReceiptDeps;

  constructor(deps: ReceiptDeps) {
    this.#deps = deps;
  }

  /** Checks until the signal aborts. */
  readonly run = async (signal: AbortSignal): Promise<void> => {
    const { runtime } = this.#deps;
    while (!signal.aborted) {
      const found = await this.look();
      const pauseMs = found === CHUNK ? 0 : found > 0 ? FIRST_LOOK_MS : IDLE_MS;
      if (pauseMs > 0) await sleep(runtime.clock, pauseMs, signal);
    }
  };

  /** Checks one chunk and returns its size. What cannot be found out now is found out later, and blocks no other row. */
  async look(): Promise<number> {
    try {
      return await this.#look();
    } catch (error) {
      this.#deps.runtime.log.warn({ error }, 'receipts cannot be looked up now');
      return 0;
    }
  }

  /** Checks everything that is due. */
  async lookAtAll(): Promise<void> {
    while ((await this.look()) === CHUNK);
  }

  async #look(): Promise<number> {
    const { store, runtime } = this.#deps;
    const rows = await store.take(CHUNK, LEASE_MS);
    if (rows.length === 0) return 0;
    const verdicts = await this.#judge(rows);
    await runtime.faultPoint('relay.looked-not-settled');
    await this.#settle(rows.map((row, index) => [row, verdicts[index] ?? 'later'] as const));
    return rows.length;
  }

  async #judge(rows: readonly SentRow[]): Promise<readonly Verdict[]> {
    const states = await this.#deps.ledger.states(rows.map(({ id }) => id));
    return await Promise.all(
      rows.map(async (row, index) => {
        const state = states[index] ?? (await this.#stateElsewhere(row));
        if (state === null) return this.#verdictOnUnknown(row);
        if (state === 'dead') return row.parksKey ? 'parked' : 'over';
        return state === 'waiting' || state === 'running' ? 'later' : 'over';
      }),
    );
  }

  /** For a task that the ledger does not know. Not at every check: most of them wait in the broker. */
  async #stateElsewhere(row: SentRow): Promise<TaskState | null> {
    if (row.isParked || (!row.isOrdered && !this.#isOverdue(row))) return null;
    const { state, error } = await this.#deps.results.read(row.id);
    if (state === 'pending' || state === 'unknown') return null;
    // A relay's dead letter is about an earlier row of this task, not about the published one.
    return state === 'dead' && error?.type === 'relay' ? null : state;
  }

  #verdictOnUnknown(row: SentRow): Verdict {
    // It was dead, and an operator purged it: then it no longer holds back other rows.
    if (row.isParked) return 'over';
    return this.#isOverdue(row) ? 'again' : 'later';
  }

  #isOverdue(row: SentRow): boolean {
    return row.ageMs >= this.#waitMs(row);
  }

  #waitMs({ claims }: SentRow): number {
    return this.#deps.timeoutMs * 2 ** Math.min(Math.max(claims - 1, 0), MOST_DOUBLINGS);
  }

  async #settle(judged: readonly (readonly [SentRow, Verdict])[]): Promise<void> {
    const { store, runtime, onFree } = this.#deps;
    const of = (verdict: Verdict): readonly SentRow[] =>
      judged.filter(([, its]) => its === verdict).map(([row]) => row);
    const over = of('over');
    const again = of('again');
    if (over.length > 0) await store.received(over.map(({ row }) => row));
    if (again.length > 0) {
      const ids = again.slice(0, 10).map(({ id }) => id);
      runtime.log.warn({ count: again.length, ids }, 'published tasks are lost; publishing again');
      for (const claims of new Set(again.map(row => row.claims))) {
        const rows = again.filter(row => row.claims === claims).map(({ row }) => row);
        await store.sendAgain(rows, claims);
      }
    }
    for (const { rows, delayMs } of this.#byDelay(of('parked'))) await store.park(rows, delayMs);
    for (const { rows, delayMs } of this.#byDelay(of('later'))) await store.later(rows, delayMs);
    if (again.length > 0 || over.some(({ isOrdered }) => isOrdered)) onFree();
  }

  #byDelay(rows: readonly SentRow[]): { readonly rows: string[]; readonly delayMs: number }[] {
    const groups = new Map<number, string[]>();
    for (const row of rows) {
      const delayMs = this.#delayMs(row);
      groups.set(delayMs, [...(groups.get(delayMs) ?? []), row.row]);
    }
    return [...groups].map(([delayMs, group]) => ({ delayMs, rows: group }));
  }

  /**
   * Until its age has doubled, but not past the time from which it counts as lost. Never so long that the ledger could
   * forget an ending between two checks: a forgotten task would be published again.
   */
  #delayMs(row: SentRow): number {
    const { timeoutMs, dedupMs } = this.#deps;
    const doublings = Math.floor(Math.log2(Math.max(row.ageMs / FIRST_LOOK_MS, 1)));
    const doubledMs = Math.min(FIRST_LOOK_MS * 2 ** doublings, timeoutMs / 4, dedupMs / 4);
    const waitMs = this.#waitMs(row);
    if (this.#isOverdue(row)) return doubledMs;
    const stepMs = waitMs / STEPS;
    return Math.min(doubledMs, Math.ceil((waitMs - row.ageMs) / stepMs) * stepMs);
  }
}
