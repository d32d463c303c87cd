import { isUnavailable } from '../errors/error.ts';
import { freeOrphans } from '../idempotency/free-orphans.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxStore, PurgeReply, PurgeRequest } from '../outbox/outbox-store.ts';
import { keepFences, type KeptFences } from './keep-fences.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** Which dead letters are deleted by themselves. */
export type DeadLetterAge = Pick<
  PurgeRequest,
  'olderThanDeadMs' | 'olderThanCreatedMs' | 'taskName'
>;

/** An outbox as a housekeeper sees it. */
export type KeptOutbox = Pick<OutboxStore, 'prune' | 'purgeDeadLetters'>;

/** Idempotency keys, and who knows whether their holders are alive. */
export interface KeptKeys {
  readonly store: Pick<IdempotencyStore, 'prune' | 'review' | 'free'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
}

export interface HouseParts {
  /** Null: this is about an outbox apart, and so are `keys`. */
  readonly ledger: Pick<Ledger, 'prune' | 'purgeDead' | 'wake' | 'abandonChords'> | null;
  readonly keys: KeptKeys | null;
  readonly outbox: KeptOutbox;
  /** Fences of tasks whose ledger is elsewhere; left out: there are none. */
  readonly fences?: KeptFences | null;
  /** Null: dead letters are kept for ever. */
  readonly deadLetterAge: DeadLetterAge | null;
  readonly runtime: Runtime;
}

/** Rows are forgotten in bites, so many a look: faster than anybody makes them, and no look takes long. */
const BITE = 1_000;
const BITES = 20;
/** Ages are counted in days: more often than once a minute nobody would notice. */
const PURGE_EVERY_MS = 60_000;
/** Group ids in one log line. */
const MOST_TOLD = 20;

interface Room {
  prune(limit: number): Promise<number>;
  purge(request: PurgeRequest): Promise<PurgeReply>;
  /** Looks at some of those that stay until somebody asks for them. */
  review?(limit: number): Promise<number>;
}

/** Forgets what has had its time: tombstones, enqueue keys, fences, and dead letters where the configuration says so. */
export class Housekeeper {
  readonly #parts: HouseParts;
  readonly #rooms: readonly Room[];
  #purgeAtMs = 0;

  constructor(parts: HouseParts) {
    const { ledger, keys, outbox, fences } = parts;
    this.#parts = parts;
    this.#rooms = [
      ...(ledger === null
        ? []
        : [
            {
              prune: (limit: number) => ledger.prune(limit),
              purge: (request: PurgeRequest) => ledger.purgeDead(request),
              review: (limit: number) => this.#abandonChords(ledger, limit),
            },
          ]),
      ...(ledger === null || keys === null ? [] : [keyRoom(keys, ledger)]),
      { prune: limit => outbox.prune(limit), purge: request => outbox.purgeDeadLetters(request) },
      ...(fences
        ? [
            { prune: (limit: number) => keepFences(fences, limit), purge: nothingToPurge },
            { prune: (limit: number) => fences.rows.prune(limit), purge: nothingToPurge },
          ]
        : []),
    ];
  }

  /** A store that is away keeps nobody from the others. */
  async look(): Promise<void> {
    const { clock, log } = this.#parts.runtime;
    const isPurging = clock.monotonic() >= this.#purgeAtMs;
    if (isPurging) this.#purgeAtMs = clock.monotonic() + PURGE_EVERY_MS;
    for (const room of this.#rooms) {
      try {
        await inBites(() => room.prune(BITE));
        if (isPurging) await this.#purge(room);
        if (isPurging) await room.review?.(BITE);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        log.warn({ error }, 'a store cannot be cleaned up now');
      }
    }
  }

  async #abandonChords(ledger: Pick<Ledger, 'abandonChords'>, limit: number): Promise<number> {
    const groups = await ledger.abandonChords(limit);
    const count = groups.length;
    const told = { count, groups: groups.slice(0, MOST_TOLD) };
    if (count > 0) this.#parts.runtime.log.warn(told, 'chords without a part for a week forgotten');
    return count;
  }

  async #purge(room: Room): Promise<void> {
    const { deadLetterAge, runtime } = this.#parts;
    if (deadLetterAge === null) return;
    const isDone = await inBites(async () => {
      const request = { ...deadLetterAge, limit: BITE, isDryRun: false };
      const { counts } = await room.purge(request);
      if (counts.length > 0) runtime.log.info({ counts }, 'dead letters purged');
      return counts.reduce((sum, { count }) => sum + count, 0);
    });
    if (!isDone) this.#purgeAtMs = 0;
  }
}

const nothingToPurge = async (): Promise<PurgeReply> => ({ counts: [] });

/** Keys have no dead letters. */
function keyRoom({ store, reads }: KeptKeys, ledger: Pick<Ledger, 'wake'>): Room {
  return {
    prune: limit => store.prune(limit),
    purge: nothingToPurge,
    review: limit => freeOrphans({ store, reads, ledger }, limit),
  };
}

/** False: there may be more. */
async function inBites(bite: () => Promise<number>): Promise<boolean> {
  for (let bites = 0; bites < BITES; bites++) {
    if ((await bite()) < BITE) return true;
  }
  return false;
}
