import { isUnavailable } from '../errors/error.ts';
import type { Ledger, StepStatus } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';

interface Waiting<Item> {
  readonly item: Item;
  readonly resolve: (status: StepStatus) => void;
}

/** Between two tries of the same settling call. It may land at any time before, so there is no hurry and no limit. */
const RETRY_MS = 250;

/**
 * One settling step, in batches: what comes while a call is under way travels with the next one. A call whose
 * reply was lost is repeated as it is, because it names its runs; it gives up only when told that its incarnation is gone.
 */
class StepBatcher<Item> {
  readonly #call: (items: readonly Item[]) => Promise<readonly StepStatus[]>;
  readonly #runtime: Runtime;
  readonly #isHopeless: () => boolean;
  #waiting: Waiting<Item>[] = [];
  #isBusy = false;

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
  settle(item: Item): Promise<StepStatus> {
    return new Promise(resolve => {
      this.#waiting.push({ item, resolve });
      if (!this.#isBusy) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#isBusy = true;
    // Runs that end in the same turn of the event loop travel together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      const statuses = await this.#callUntilAnswered(batch.map(waiting => waiting.item));
      for (const [index, waiting] of batch.entries()) waiting.resolve(statuses[index] ?? 'stale');
    }
    this.#isBusy = false;
  }

  async #callUntilAnswered(items: readonly Item[]): Promise<readonly StepStatus[]> {
    const { clock, log } = this.#runtime;
    let hasFailed = false;
    for (;;) {
      try {
        return await this.#call(items);
      } catch (error) {
        // Said once: it is repeated four times a second for as long as the store is away.
        if (!hasFailed) log.warn({ error, items: items.length }, 'settling failed; repeating it');
        hasFailed = true;
        if (!isUnavailable(error) || this.#isHopeless()) return [];
        await sleep(clock, RETRY_MS);
      }
    }
  }
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
