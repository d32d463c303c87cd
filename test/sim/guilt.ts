import type { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import type { BuryItem, StepStatus } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { toText } from '../../src/task/json.ts';
import type { Faults } from './faults.ts';
import type { SimPlan } from './plan.ts';

/** Messages that the ledger can never store: every batch with one in it is refused, and the whole of it as a letter too. */
export class Guilt {
  readonly #ids: readonly string[];
  readonly #ledger: MemoryLedger;
  readonly #faults: Faults;

  constructor({ tasks }: SimPlan, ledger: MemoryLedger, faults: Faults) {
    this.#ids = tasks.filter(({ kind }) => kind === 'unstorable').map(({ id }) => id);
    this.#ledger = ledger;
    this.#faults = faults;
  }

  /** Throws for a batch with a message in it that cannot be stored. */
  check(messages: readonly Envelope[]): void {
    if (!messages.some(({ id }) => this.#ids.includes(id))) return;
    if (messages.length > 1) this.#faults.count('batch-refused');
    throw new TypeError('one of these messages cannot be stored');
  }

  /** Takes what is cut, and nothing whole. */
  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    const isWhole = (item: BuryItem): boolean =>
      item.kind === 'message' && this.#ids.some(id => item.envelope.id.startsWith(`${id}#`));
    if (items.some(isWhole)) throw new TypeError('one of these letters cannot be stored');
    return await this.#ledger.bury(items);
  }

  /** Whether it is a dead letter, whose headers name the original. */
  isBuried(id: string): boolean {
    if (!this.#ids.includes(id)) return false;
    const letters = [...this.#ledger.state.records.values()].filter(
      ({ state }) => state === 'dead',
    );
    return letters.some(({ envelope }) =>
      toText(envelope?.options ?? NONE).includes(`"id":"${id}"`),
    );
  }
}

const NONE = new Uint8Array();
