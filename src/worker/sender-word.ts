import type { Broker } from '../broker/broker.ts';
import { toldOf } from '../ledger/follow-up.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import type { ResultRecord, ResultStore } from '../result/result-store.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { toText } from '../task/json.ts';
import { replyOf, type Told } from '../wire/reply.ts';

export interface WordDeps {
  readonly broker: Broker;
  readonly runtime: Runtime;
  readonly results?: ResultStore;
}

/**
 * Word from one run to whoever waits for its task through the broker, before the end. A caller that polls keeps the last
 * word only, so nothing may come after the end: STARTED is told before the handler runs, RETRY before the ledger lets
 * another run begin, and by nobody who knows that others may have the task. Whoever spoke without knowing it tells the
 * end again.
 */
export class SenderWord {
  readonly #task: BegunTask;
  readonly #deps: WordDeps;
  readonly #isOver: () => boolean;
  #hasSpoken = false;

  /** @param isOver the task may be others' by now */
  constructor(task: BegunTask, deps: WordDeps, isOver: () => boolean) {
    this.#task = task;
    this.#deps = deps;
    this.#isOver = isOver;
  }

  /** Resolves when the broker has it, or cannot take it. Said once: nothing is lost with it. */
  async tell(told: Told): Promise<void> {
    if (this.#isOver()) return;
    if (await this.#say(told)) this.#hasSpoken = true;
  }

  /** It was not the rightful run: where the task has ended, our word may have come after that. */
  async tellEndAgain(): Promise<void> {
    const { results, runtime } = this.#deps;
    if (!this.#hasSpoken || !results) return;
    try {
      const told = endOf(await results.read(this.#task.id));
      if (told !== null) await this.#say(told);
    } catch (error) {
      runtime.log.warn({ error, task: this.#task.id }, 'the end was not told again');
    }
  }

  /** False: nobody asked. */
  async #say(told: Told): Promise<boolean> {
    const { broker, runtime } = this.#deps;
    const reply = broker.reply ? replyOf(this.#task.envelope, told) : null;
    if (reply === null) return false;
    await broker.reply?.([reply]).catch((error: unknown) => {
      runtime.log.warn({ error, task: this.#task.id, status: told.status }, 'nobody was told');
    });
    return true;
  }
}

/** Null: it has not ended, and whoever ends it tells. */
function endOf({ ending, result, error, why }: ResultRecord): Told | null {
  if (ending === null) return null;
  if (ending !== 'done')
    return toldOf({ how: ending, ...(error ? { error } : {}), ...(why === null ? {} : { why }) });
  return { status: 'SUCCESS', result: result === null ? 'null' : toText(result) };
}
