import type { Broker } from '../../broker/broker.ts';
import type { FollowUpSender } from './follow-up-sender.ts';
import { reportedEnd } from '../../ledger/follow-up.ts';
import type { BegunTask } from '../../ledger/ledger.ts';
import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { toText } from '../../task/json.ts';
import { replyOf, type ReportedEnd } from '../../wire/reply.ts';

export interface SenderNotifierDeps {
  readonly broker: Broker;
  readonly followUps: FollowUpSender;
  readonly runtime: Runtime;
  readonly results?: ResultStore;
}

/**
 * Notifies the sender that waits for the result through the broker of events before the end. A caller that polls keeps the
 * last message only, so nothing may follow the end: STARTED is sent before the handler runs, RETRY before the ledger lets
 * another run begin, and neither by a run that knows it may have lost the task. A run that sent one without knowing it sends
 * the end again.
 */
export class SenderNotifier {
  readonly #task: BegunTask;
  readonly #deps: SenderNotifierDeps;
  readonly #isOver: () => boolean;
  #hasSent = false;

  /** @param isOver another run may own the task by now */
  constructor(task: BegunTask, deps: SenderNotifierDeps, isOver: () => boolean) {
    this.#task = task;
    this.#deps = deps;
    this.#isOver = isOver;
  }

  /** Resolves when the broker has the message, or cannot take it. Sent once: losing it loses no task. */
  async notify(status: ReportedEnd): Promise<void> {
    if (this.#isOver()) return;
    if (await this.#send(status)) this.#hasSent = true;
  }

  /** It was not the rightful run: if the task has ended, our message may have come after the end. */
  async sendEndAgain(): Promise<void> {
    const { results, runtime } = this.#deps;
    if (!this.#hasSent || !results) return;
    try {
      const status = endOf(await results.read(this.#task.id));
      if (status !== null) await this.#send(status);
    } catch (error) {
      runtime.log.warn({ error, task: this.#task.id }, 'the end was not sent again');
    }
  }

  /** False: the sender does not wait for an answer. */
  async #send(status: ReportedEnd): Promise<boolean> {
    const { broker, followUps } = this.#deps;
    const reply = broker.reply ? replyOf(this.#task.envelope, status) : null;
    if (reply === null) return false;
    await followUps.reply(reply);
    return true;
  }
}

/** Null: it has not ended, and the run that ends it notifies the sender. */
function endOf({ ending, result, error, why }: ResultRecord): ReportedEnd | null {
  if (ending === null) return null;
  if (ending !== 'done')
    return reportedEnd({
      how: ending,
      ...(error ? { error } : {}),
      ...(why === null ? {} : { why }),
    });
  return { status: 'SUCCESS', result: result === null ? 'null' : toText(result) };
}
