import { isUnavailable } from '../errors/error.ts';
import type { Ledger, StepStatus } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import { endOfTick } from '../runtime/end-of-tick.ts';
import type { Runtime } from '../runtime/runtime.ts';

interface Waiting<Item> {
  readonly item: Item;
  readonly resolve: (status: SettleStatus) => void;
}

/** Between two tries of the same settling call. It may land at any time before, so there is no hurry and no limit. */
const RETRY_MS = 250;

/** One for each of the batches that are begun at a time: what one ended with does not wait for the other. */
const MOST_CALLS = 2;

/** `refused`: the store can never take this, whoever asks and however often. */
export type SettleStatus = StepStatus | 'refused';

/**
 * One settling step, in batches: what comes while calls are under way travels with the next one. A call whose
 * reply was lost is repeated as it is, because it names its runs; it gives up only when told that its incarnation is
 * gone. When a batch fails and the store is not away, one item of it is the cause: then each goes on alone, so that
 * a row that is locked or cannot be written keeps nobody else waiting.
 */
class StepBatcher<Item> {
  readonly #call: (items: readonly Item[]) => Promise<readonly StepStatus[]>;
  readonly #runtime: Runtime;
  readonly #isHopeless: () => boolean;
  #waiting: Waiting<Item>[] = [];
  /** Somebody waits for the end of this tick, and takes along whatever comes until then. */
  #isGathering = false;
  #calls = 0;

  constructor(
    call: (items: readonly Item[]) => Promise<readonly StepStatus[]>,
    runtime: Runtime,
    isHopeless: () => boolean,
  ) {
    this.#call = call;
    this.#runtime = runtime;
    this.#isHopeless = isHopeless;
  }

  /** `stale` also when the incarnation is gone and nobody can say more. */
  settle(item: Item): Promise<SettleStatus> {
    return new Promise(resolve => {
      this.#waiting.push({ item, resolve });
      if (!this.#isGathering && this.#calls < MOST_CALLS) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#isGathering = true;
    this.#calls += 1;
    // Runs that end in the same tick travel together.
    await endOfTick();
    this.#isGathering = false;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#settleTogether(batch);
    }
    this.#calls -= 1;
  }

  async #settleTogether(batch: readonly Waiting<Item>[]): Promise<void> {
    const { clock, log } = this.#runtime;
    for (let tries = 1; ; tries++) {
      try {
        const statuses = await this.#call(batch.map(({ item }) => item));
        for (const [index, { resolve }] of batch.entries()) resolve(statuses[index] ?? 'stale');
        return;
      } catch (error) {
        if (tries === 1) log.warn({ error, items: batch.length }, 'settling failed; repeating it');
        if (this.#isHopeless()) return batch.forEach(({ resolve }) => resolve('stale'));
        if (!isUnavailable(error) || isOfOneRow(error)) {
          for (const waiting of batch) void this.#settleAlone(waiting);
          return;
        }
        await sleep(clock, RETRY_MS);
      }
    }
  }

  async #settleAlone({ item, resolve }: Waiting<Item>): Promise<void> {
    const { clock, log } = this.#runtime;
    for (;;) {
      try {
        const [status] = await this.#call([item]);
        return resolve(status ?? 'stale');
      } catch (error) {
        if (this.#isHopeless()) return resolve('stale');
        if (!isUnavailable(error)) {
          log.error({ error }, 'the store refuses what a run ended with');
          return resolve('refused');
        }
        await sleep(clock, RETRY_MS);
      }
    }
  }
}

/** A lock that did not come, or a statement that took too long: the store is there, one row is not to be had. */
function isOfOneRow(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return cause?.code === '55P03' || cause?.code === '57014';
}

/** The settling steps of one worker. */
export interface Settler {
  readonly commit: StepBatcher<Parameters<Ledger['commit']>[0][number]>;
  readonly fail: StepBatcher<Parameters<Ledger['fail']>[0][number]>;
  readonly release: StepBatcher<Parameters<Ledger['release']>[0][number]>;
  readonly bury: StepBatcher<Parameters<Ledger['bury']>[0][number]>;
}

export function createSettler(
  ledger: Ledger,
  runtime: Runtime,
  isHopeless: () => boolean,
): Settler {
  const batcher = <Item>(
    call: (items: readonly Item[]) => Promise<readonly StepStatus[]>,
  ): StepBatcher<Item> => new StepBatcher(call, runtime, isHopeless);
  return {
    commit: batcher(items => ledger.commit(items)),
    fail: batcher(items => ledger.fail(items)),
    release: batcher(items => ledger.release(items)),
    bury: batcher(items => ledger.bury(items)),
  };
}
