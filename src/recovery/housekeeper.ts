import { isUnavailable } from '../errors/error.ts';
import { type IdempotencyStore, freeOrphans } from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxStore, PurgeReply, PurgeRequest } from '../outbox/outbox-store.ts';
import { type KeptFences, keepFences } from './keep-fences.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import { sweepCheckpoints } from './sweep-checkpoints.ts';

/** Which dead letters are deleted automatically. */
export type DeadLetterAge = Pick<
  PurgeRequest,
  'olderThanDeadMs' | 'olderThanCreatedMs' | 'taskName'
>;

/** The steps of an outbox that a housekeeper uses. */
export type KeptOutbox = Pick<OutboxStore, 'prune' | 'purgeDeadLetters'>;

/** Idempotency keys, and the reads that tell whether their holders are alive. */
export interface KeptKeys {
  readonly store: Pick<IdempotencyStore, 'prune' | 'review' | 'free'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
}

export interface HouseParts {
  /** Null: this housekeeper serves a separate outbox, and `keys` is null too. */
  readonly ledger: Pick<Ledger, 'prune' | 'purgeDead' | 'wake' | 'abandonChords'> | null;
  readonly keys: KeptKeys | null;
  readonly outbox: KeptOutbox;
  /** Fences of tasks whose ledger is elsewhere; left out: there are none. */
  readonly fences?: KeptFences | null;
  /** Null: dead letters are kept for ever. */
  readonly deadLetterAge: DeadLetterAge | null;
  readonly runtime: Runtime;
}

/** Rows are deleted in batches, several a pass: faster than they are created, and no pass takes long. */
const BATCH = 1_000;
const BATCHES = 20;
/** Ages are counted in days: running more often than once a minute makes no difference. */
const PURGE_EVERY_MS = 60_000;
/** Group ids in one log line. */
const MOST_LOGGED = 20;

interface CleanedStore {
  prune(limit: number): Promise<number>;
  purge(request: PurgeRequest): Promise<PurgeReply>;
  /** Reviews some of the rows that have no expiry. */
  review?(limit: number): Promise<number>;
}

/** Deletes what has expired: tombstones, enqueue keys, fences, and dead letters if the configuration says so. */
export class Housekeeper {
  readonly #parts: HouseParts;
  readonly #stores: readonly CleanedStore[];
  #purgeAtMs = 0;

  constructor(parts: HouseParts) {
    const { ledger, keys, outbox, fences } = parts;
    this.#parts = parts;
    this.#stores = [
      ...(ledger === null
        ? []
        : [
            {
              prune: (limit: number) => ledger.prune(limit),
              purge: (request: PurgeRequest) => ledger.purgeDead(request),
              review: (limit: number) => this.#abandonChords(ledger, limit),
            },
          ]),
      ...(ledger === null || keys === null ? [] : [keyStore(keys, ledger)]),
      { prune: limit => outbox.prune(limit), purge: request => outbox.purgeDeadLetters(request) },
      ...(fences
        ? [
            { prune: (limit: number) => keepFences(fences, limit), purge: nothingToPurge },
            { prune: (limit: number) => fences.rows.prune(limit), purge: nothingToPurge },
          ]
        : []),
    ];
  }

  /** A store that is away does not keep the others from being cleaned. */
  async look(): Promise<void> {
    const { clock, log } = this.#parts.runtime;
    const isPurging = clock.monotonic() >= this.#purgeAtMs;
    if (isPurging) this.#purgeAtMs = clock.monotonic() + PURGE_EVERY_MS;
    for (const store of this.#stores) {
      try {
        await inBatches(() => store.prune(BATCH));
        if (isPurging) await this.#purge(store);
        if (isPurging) await store.review?.(BATCH);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        log.warn({ error }, 'a store cannot be cleaned up now');
      }
    }
  }

  async #abandonChords(ledger: Pick<Ledger, 'abandonChords'>, limit: number): Promise<number> {
    const groups = await ledger.abandonChords(limit);
    const count = groups.length;
    const fields = { count, groups: groups.slice(0, MOST_LOGGED) };
    if (count > 0)
      this.#parts.runtime.log.warn(fields, 'chords without a part for a week forgotten');
    return count;
  }

  async #purge(store: CleanedStore): Promise<void> {
    const { deadLetterAge, runtime } = this.#parts;
    if (deadLetterAge === null) return;
    const isDone = await inBatches(async () => {
      const request = { ...deadLetterAge, limit: BATCH, isDryRun: false };
      const { counts } = await store.purge(request);
      if (counts.length > 0) runtime.log.info({ counts }, 'dead letters purged');
      return counts.reduce((sum, { count }) => sum + count, 0);
    });
    if (!isDone) this.#purgeAtMs = 0;
  }
}

const nothingToPurge = async (): Promise<PurgeReply> => ({ counts: [] });

/** Keys have no dead letters. */
function keyStore({ store, reads }: KeptKeys, ledger: Pick<Ledger, 'wake'>): CleanedStore {
  return {
    prune: limit => store.prune(limit),
    purge: nothingToPurge,
    review: limit => freeOrphans({ store, reads, ledger }, limit),
  };
}

/** False: there may be more. */
async function inBatches(runBatch: () => Promise<number>): Promise<boolean> {
  for (let batches = 0; batches < BATCHES; batches++) {
    if ((await runBatch()) < BATCH) return true;
  }
  return false;
}

const EVERY_MS = 600_000;

export interface CleanCheckpointsParts {
  readonly store: CheckpointStore;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly runtime: Runtime;
}

/** Deletes large checkpoints that no task needs any more, beside the resurrector. */
export async function cleanCheckpoints(
  { store, reads, runtime }: CleanCheckpointsParts,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const count = await sweepCheckpoints(store, reads);
      if (count > 0) runtime.log.info({ count }, 'checkpoints of tasks that are over are deleted');
    } catch (error) {
      runtime.log.warn({ error }, 'old checkpoints cannot be deleted now');
    }
    await sleep(runtime.clock, EVERY_MS, signal);
  }
}
