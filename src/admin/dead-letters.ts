import { outlastError } from '../errors/error.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type {
  OutboxStore,
  PurgeReply,
  PurgeRequest,
  ReviveStatus,
} from '../outbox/outbox-store.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import { readCount } from './admin-options.ts';
import { type ReadModel } from './read-model.ts';
import { compareLetters, type DeadLetterSummary } from '../ledger/dead-letter.ts';

/** `incomplete`: the message was too large, and only the first of its bytes were kept. */
export type RetryStatus = ReviveStatus | 'incomplete';

/** Which letters to bring back. */
export interface RetryAllOptions {
  /** A glob with `*` and `?`. @default every task */
  readonly taskName?: string;
  /** @default 1000 */
  readonly limit?: number;
}

/** What became of the dead letters that were to run again. */
export interface RetrySummary {
  readonly retried: number;
  /** Left as they are: their deadline has passed, another operator was faster, or only the first of their bytes were kept. */
  readonly skipped: {
    readonly expired: number;
    readonly conflict: number;
    readonly incomplete: number;
  };
}

/** Which letters to delete. All given conditions must hold; one age must be given. */
export interface PurgeOptions {
  /** Since its death. */
  readonly olderThanDead?: Duration | undefined;
  /** Since it was sent. */
  readonly olderThanCreated?: Duration | undefined;
  /** A glob with `*` and `?`. @default every task */
  readonly taskName?: string | undefined;
  /** Counts only. */
  readonly dryRun?: boolean;
}

/** How many dead letters were deleted. */
export interface PurgeSummary {
  /** How many letters were deleted, or would be. */
  readonly count: number;
  /** The same by task; both kinds of letters together. */
  readonly tasks: readonly { readonly name: string; readonly count: number }[];
}

export interface LetterStores {
  readonly outbox: Pick<OutboxStore, 'reviveDeadLetter' | 'purgeDeadLetters'>;
  readonly ledger: Pick<Ledger, 'revive' | 'purgeDead'>;
}

interface RetryStores extends LetterStores {
  readonly reads: Pick<ReadModel, 'showDeadLetter' | 'inspect' | 'listDeadLetters'>;
}

/** The letter records where it died; the version makes a double click one retry. */
export async function retryLetter(
  stores: RetryStores,
  id: string,
  version: number | undefined,
): Promise<RetryStatus> {
  const letter = await stores.reads.showDeadLetter(id);
  if (!letter) return (await stores.reads.inspect(id)) ? 'conflict' : 'absent';
  return await revive(stores, { ...letter, version: version ?? letter.version });
}

async function revive(
  { outbox, ledger }: LetterStores,
  { id, version, where, reason }: Pick<DeadLetterSummary, 'id' | 'version' | 'where' | 'reason'>,
): Promise<RetryStatus> {
  // It would run with a truncated payload, or die again.
  if (reason === 'ERR_MESSAGE_TOO_LARGE') return 'incomplete';
  return where === 'relay'
    ? await outbox.reviveDeadLetter(id, version)
    : await ledger.revive(id, version);
}

const RETRY_PAGE = 500;
const MOST_RETRIES = 1_000_000;

/**
 * Oldest first, so that what failed first runs first. Letters that die after the newest one of now are skipped: a
 * task that fails at once would be brought back forever.
 */
export async function retryAll(
  stores: RetryStores,
  options: RetryAllOptions,
): Promise<RetrySummary> {
  const most = readCount(options.limit ?? 1_000, 'limit', MOST_RETRIES);
  const taskName = options.taskName ?? null;
  const first = { limit: 1, cursor: null, order: 'newest' as const, taskName };
  const newest = (await stores.reads.listDeadLetters(first)).items[0];
  const counts = { ok: 0, absent: 0, conflict: 0, expired: 0, incomplete: 0 };
  let cursor: string | null = null;
  do {
    const limit = Math.min(RETRY_PAGE, most - counts.ok);
    const page = await stores.reads.listDeadLetters({ limit, cursor, order: 'oldest', taskName });
    const letters = page.items.filter(letter => newest && compareLetters(letter, newest) <= 0);
    for (const letter of letters) counts[await revive(stores, letter)] += 1;
    cursor = letters.length < page.items.length ? null : page.next;
  } while (cursor !== null && counts.ok < most);
  const { ok, absent, conflict, expired, incomplete } = counts;
  return { retried: ok, skipped: { expired, conflict: conflict + absent, incomplete } };
}

/** Letters deleted by one statement: a purge of millions holds no lock for long. */
const PURGE_CHUNK = 1_000;

/** Deletes letters of both kinds, chunk by chunk, each in a separate transaction. */
export async function purgeLetters(
  stores: () => Promise<LetterStores>,
  options: PurgeOptions,
): Promise<PurgeSummary> {
  const request = purgeRequest(options);
  const { outbox, ledger } = await stores();
  const counts = new Map<string, number>();
  for (const purge of [
    (chunk: PurgeRequest) => outbox.purgeDeadLetters(chunk),
    (chunk: PurgeRequest) => ledger.purgeDead(chunk),
  ]) {
    let count: number;
    do {
      count = add(counts, await purge(request));
    } while (!request.isDryRun && count === request.limit);
  }
  const tasks = [...counts].map(([name, count]) => ({ name, count }));
  tasks.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { count: tasks.reduce((sum, { count }) => sum + count, 0), tasks };
}

function add(counts: Map<string, number>, { counts: chunk }: PurgeReply): number {
  for (const { name, count } of chunk) counts.set(name, (counts.get(name) ?? 0) + count);
  return chunk.reduce((sum, { count }) => sum + count, 0);
}

/** Without an age every letter would be deleted: that is never meant. */
function purgeRequest(options: PurgeOptions): PurgeRequest {
  const { olderThanDead, olderThanCreated, taskName, dryRun } = options;
  if (olderThanDead === undefined && olderThanCreated === undefined) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: 'a purge needs an age: `olderThanDead`, `olderThanCreated` or both',
      hint: "Give one, for example olderThanDead: '30d'.",
      fields: { options: ['olderThanDead', 'olderThanCreated'] },
    });
  }
  return {
    olderThanDeadMs: ageMs(olderThanDead, 'olderThanDead'),
    olderThanCreatedMs: ageMs(olderThanCreated, 'olderThanCreated'),
    taskName: taskName ?? null,
    limit: PURGE_CHUNK,
    isDryRun: dryRun ?? false,
  };
}

function ageMs(age: Duration | undefined, option: string): number | null {
  return age === undefined ? null : Math.round(durationMs(age, option));
}
