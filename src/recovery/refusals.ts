import type { Broker } from '../broker/broker.ts';
import type { Ledger, RefusedTask } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Envelope, Refused } from '../task/envelope.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { MOST_REFUSERS } from '../wire/headers.ts';

export interface RefusalsDeps {
  readonly ledger: Pick<Ledger, 'refusals'>;
  readonly broker: Pick<Broker, 'publish' | 'silentMs'>;
  readonly runtime: Runtime;
  /** How long a task waits for a worker that can run it. */
  readonly timeoutMs: number;
}

const LOOK_EVERY_MS = 1_000;
const PAGE = 500;
/** Per pass: the next pass goes on from there. */
const PAGES_AT_ONCE = 10;
/** Our own workers always see it in the ledger; a broker's other consumers get it back after this, then later and later. */
const FIRST_RETURN_MS = 1_000;
const LAST_RETURN_MS = 120_000;

/**
 * Handles tasks that workers set aside because they have no handler for them. A worker of ours that has one takes them
 * from the ledger. Behind a broker the right worker may run other software, and sees only the broker: so they go back
 * there, again and again. Tasks that no worker has taken for too long become dead letters.
 */
export class Refusals {
  readonly #deps: RefusalsDeps;
  #lookAt = 0;
  /** Where the last pass stopped; undefined: it reached the end. */
  #after: string | undefined;

  constructor(deps: RefusalsDeps) {
    this.#deps = deps;
  }

  async look(): Promise<void> {
    const { ledger, runtime } = this.#deps;
    const now = runtime.clock.monotonic();
    if (now < this.#lookAt) return;
    this.#lookAt = now + LOOK_EVERY_MS;
    for (let pages = 0; pages < PAGES_AT_ONCE; pages += 1) {
      const { tasks, next } = await ledger.refusals.list(PAGE, this.#after);
      this.#after = next ?? undefined;
      await this.#care(tasks);
      if (next === null) return;
    }
  }

  async #care(tasks: readonly RefusedTask[]): Promise<void> {
    const { broker, timeoutMs } = this.#deps;
    const returning: RefusedTask[] = [];
    for (const task of tasks) {
      const { times, waitedMs } = refusedSoFar(task);
      if (waitedMs >= timeoutMs) await this.#bury(task);
      // If broker and ledger are one database, no other consumer looks for it.
      else if (broker.silentMs !== undefined && !task.isBegun && task.waitedMs >= returnMs(times))
        returning.push(task);
    }
    if (returning.length > 0) await this.#giveBack(returning);
  }

  /**
   * Confirmed first, deleted then. If the process is killed in between, the task is given back once more, under the same id.
   * A worker that met the copy before the deletion has left it to the ledger: then it stays, and is given back another time.
   */
  async #giveBack(tasks: readonly RefusedTask[]): Promise<void> {
    const { ledger, broker, runtime } = this.#deps;
    const outcomes = await broker.publish(tasks.map(withRefusal));
    await runtime.faultPoint('refusals.published-not-handed-back');
    for (const [index, outcome] of outcomes.entries()) {
      const { envelope, mark } = tasks[index] as RefusedTask;
      const { id: task, name, queue } = envelope;
      if (outcome.status === 'confirmed') await ledger.refusals.handBack(task, mark);
      else runtime.log.warn({ task, name, queue, outcome }, 'a refused task stays in the ledger');
    }
  }

  async #bury(task: RefusedTask): Promise<void> {
    const { ledger, runtime } = this.#deps;
    const { waitedMs, by } = refusedSoFar(task);
    const { id, name, queue, version } = task.envelope;
    const message = `no worker had a handler for ${name} (payload version ${version}) within ${Math.round(waitedMs / 1_000)} s; refused by ${by.join(', ')}`;
    const error = { type: 'ERR_TASK_UNKNOWN', message, traceback: '' };
    if ((await ledger.refusals.bury(id, error)) !== 'ok') return;
    runtime.emit('task:dead-lettered', {
      id,
      name,
      queue,
      where: 'worker',
      reason: error.type,
      error: { type: error.type, message },
    });
  }
}

const returnMs = (times: number): number =>
  Math.min(FIRST_RETURN_MS * 2 ** Math.min(times, 10), LAST_RETURN_MS);

/** Including this time: the refusals the broker has brought, and those the ledger has seen since. */
function refusedSoFar({ envelope, waitedMs, worker }: RefusedTask): Refused {
  const before = readOptions(envelope).refused ?? { times: 0, waitedMs: 0, by: [] };
  const by = [...new Set([...before.by, worker])].slice(0, MOST_REFUSERS);
  return { times: before.times, waitedMs: before.waitedMs + waitedMs, by };
}

function withRefusal(task: RefusedTask): Envelope {
  const so = refusedSoFar(task);
  const refused: Refused = { ...so, times: so.times + 1 };
  const options = { ...readOptions(task.envelope), refused };
  return { ...task.envelope, options: toBytes(encodeJson(options)) };
}
