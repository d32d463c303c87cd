import type { Place } from '../admission/admission-store.ts';
import type { Limit, LimitBook } from '../admission/limits.ts';
import type { Entry, Places, Refused } from '../admission/places.ts';
import { subjectOf } from '../admission/subject.ts';
import { isUnavailable } from '../errors/error.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Handler } from './handler.ts';

export interface GateDeps {
  readonly places: Places;
  readonly book: LimitBook;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly runtime: Runtime;
}

/** A run whose place nobody could look up is given back for about so long. */
const AWAY_MS = 1_000;

/** Lets a run begin where the limits of its task have room, and tells it to come again where not. */
export class Gate {
  readonly #deps: GateDeps;

  constructor(deps: GateDeps) {
    this.#deps = deps;
  }

  /** Null: nothing limits how many of these run. At once where no store has to be asked. */
  enter(task: BegunTask): Promise<Entry> | null {
    const { book, handlers } = this.#deps;
    const { envelope } = task;
    const contract = handlers.get(envelope.name)?.task.contract;
    // Most tasks are under no limit, and most options need not be read to see it.
    const isFree = !book.limitsRuns && !contract?.admission && !hasOwn(envelope.options);
    if (isFree) return null;
    const limits = book
      .of(subjectOf(envelope, contract))
      .filter(({ concurrency }) => concurrency !== null);
    return limits.length === 0 ? null : this.#ask(task, limits);
  }

  async #ask(task: BegunTask, limits: readonly Limit[]): Promise<Entry> {
    const { places, runtime } = this.#deps;
    try {
      const entry = await places.enter(task, limits);
      if (entry.isIn) await runtime.faultPoint('worker.admitted-not-run');
      else this.#tell(task, entry);
      return entry;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      runtime.log.warn(
        { error, task: task.id },
        'no place could be asked for; the task is given back',
      );
      const { key, concurrency } = limits[0] as Limit;
      return { isIn: false, key, limit: concurrency ?? 1, retryAfterMs: AWAY_MS };
    }
  }

  /** For a task that was told to come again, and was given back. */
  async wait({ id }: BegunTask, refused: Refused): Promise<void> {
    await this.#deps.places.wait(id, refused);
  }

  leave(places: readonly Place[]): void {
    this.#deps.places.leave(places);
  }

  #tell({ envelope }: BegunTask, entry: Refused): void {
    const { id, name, queue } = envelope;
    const { key, retryAfterMs } = entry;
    const event = { id, name, queue, where: 'worker', key, retryAfterMs } as const;
    this.#deps.runtime.emit('admission:rejected', event);
  }
}

const OWN = '"admission":';

/** Within a value of the user's the quotes would be escaped. */
function hasOwn(options: Uint8Array): boolean {
  if (options.length < OWN.length) return false;
  return Buffer.from(options.buffer, options.byteOffset, options.length).includes(OWN);
}
