import { nextTurn } from '../runtime/end-of-tick.ts';

interface Lane<T> {
  places: number;
  suspects: number;
  readonly done: Promise<T>;
}

/** One batch is begun while the one before it runs; a third would only wait behind them. */
const MOST = 2;
/** Of one batch: whoever begins it keeps the store from others meanwhile, and stores have limits of their own. */
const LARGEST = 500;

/**
 * The batches that are being begun. The store works on one while this process works on the other: with a single one each
 * of the two would wait for the other all the time.
 */
export class Lanes<T> {
  #lanes: readonly Lane<T>[] = [];
  #turn: Promise<void> = Promise.resolve();

  /** How many places they have been promised. */
  get places(): number {
    return this.#lanes.reduce((sum, { places }) => sum + places, 0);
  }

  /** How many suspects they may bring. */
  get suspects(): number {
    return this.#lanes.reduce((sum, { suspects }) => sum + suspects, 0);
  }

  /** The largest batch: of all places both lanes get their half. */
  static share(places: number): number {
    return Math.min(Math.ceil(places / MOST), LARGEST);
  }

  add(places: number, suspects: number, done: Promise<T>): void {
    const lane = { places, suspects, done };
    this.#lanes = [...this.#lanes, lane];
    const settled = (): void => {
      lane.places = 0;
      lane.suspects = 0;
    };
    // Whoever waits for it hears of its failure.
    done.then(settled, settled);
  }

  /** Waits until there is room for another; undefined: there was. */
  async room(): Promise<T | undefined> {
    return this.#lanes.length < MOST ? undefined : await this.#first();
  }

  /** Waits for all of them; what the last one said. */
  async last(): Promise<T | undefined> {
    let answer: T | undefined;
    while (this.#lanes.length > 0) answer = await this.#first();
    return answer;
  }

  /** Waits for all of them, however they end. */
  async over(): Promise<void> {
    while (this.#lanes.length > 0) await this.#first().catch(() => undefined);
  }

  /**
   * One batch goes on in each turn of the event loop. Answers that come together would have this process run both
   * batches while the store has nothing to do; so what follows the first is on its way before the second is run.
   */
  turn(): Promise<void> {
    const mine = this.#turn;
    this.#turn = mine.then(nextTurn);
    return mine;
  }

  async #first(): Promise<T | undefined> {
    const [lane] = this.#lanes;
    try {
      return await lane?.done;
    } finally {
      this.#lanes = this.#lanes.filter(other => other !== lane);
    }
  }
}
