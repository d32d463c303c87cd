import { outlastError } from '../errors/error.ts';
import { INTERNALS, type Outlast } from '../wiring/outlast.ts';
import type { DeadLetterDetails, DeadLetterPage, Stats, TaskDetails } from './read-model.ts';
import type { Stores } from '../wiring/stores.ts';

export type RetryStatus = 'ok' | 'absent' | 'conflict';

/** What operators do, for the CLI, the dashboard and your own tools. */
export interface Admin {
  stats(options?: { readonly top?: number }): Promise<Stats>;
  readonly deadLetters: {
    list(options?: { readonly limit?: number; readonly cursor?: string }): Promise<DeadLetterPage>;
    show(id: string): Promise<DeadLetterDetails | null>;
    /** Brings a dead letter back, once: `conflict` when it was not dead any more. */
    retry(id: string, version?: number): Promise<RetryStatus>;
  };
  readonly tasks: {
    inspect(id: string): Promise<TaskDetails | null>;
    cancel(id: string): Promise<'ok' | 'terminal'>;
  };
}

/**
 * The operator's side of an instance.
 *
 * @example
 * const { queueDepth } = await createAdmin(outlast).stats();
 */
export function createAdmin(outlast: Pick<Outlast<never>, typeof INTERNALS>): Admin {
  return adminOn(() => outlast[INTERNALS].stores());
}

export function adminOn(stores: () => Promise<Stores>): Admin {
  return {
    stats: async options => await (await stores()).reads.stats(options?.top ?? 5),
    deadLetters: {
      list: async options => {
        const page = { limit: options?.limit ?? 50, cursor: readCursor(options?.cursor) };
        return await (await stores()).reads.listDeadLetters(page);
      },
      show: async id => await (await stores()).reads.showDeadLetter(id),
      retry: async (id, version) => await retry(await stores(), id, version),
    },
    tasks: {
      inspect: async id => await (await stores()).reads.inspect(id),
      cancel: async id => await (await stores()).ledger.cancel(id),
    },
  };
}

/** As `next` of a page gave it: an id and the instant of its death. */
const CURSOR = /^\S+ \d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?[+-]\d\d(:?\d\d){0,2}$/;

function readCursor(cursor: string | undefined): string | null {
  if (cursor === undefined || CURSOR.test(cursor)) return cursor ?? null;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `${JSON.stringify(cursor)} is not where a page of dead letters ended`,
    hint: 'Give `next` of the page before, as it was.',
    fields: { option: 'cursor' },
  });
}

/** The letter knows where it died; the version makes a double click one retry. */
async function retry(
  stores: Stores,
  id: string,
  version: number | undefined,
): Promise<RetryStatus> {
  const letter = await stores.reads.showDeadLetter(id);
  if (!letter) return (await stores.reads.inspect(id)) ? 'conflict' : 'absent';
  const named = version ?? letter.version;
  return letter.where === 'relay'
    ? await stores.outbox.reviveDeadLetter(id, named)
    : await stores.ledger.revive(id, named);
}
