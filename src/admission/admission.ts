import { isUnavailable } from '../errors/error.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import type { AdmissionStore } from './admission-store.ts';
import type { Limit, LimitBook, Subject } from './limits.ts';
import { subjectOf } from './subject.ts';
import { rejected, spread, STORE_KEY } from './rejected.ts';
import { takeRates, type Takings, type Verdict } from './take-rates.ts';

export interface AdmissionDeps {
  readonly store: AdmissionStore;
  readonly book: LimitBook;
  readonly runtime: Pick<Runtime, 'random' | 'emit' | 'log'>;
}

/** A task that wants to come in. */
export type Newcomer = Pick<Envelope, 'id' | 'name' | 'queue'> & {
  readonly subject: Subject;
  /** Asked for before; null: not. */
  readonly permit: string | null;
};

/** A task as its envelope tells of it. */
export function newcomerOf(envelope: Envelope): Newcomer {
  const { id, name, queue } = envelope;
  const { permit = null } = readOptions(envelope);
  return { id, name, queue, permit, subject: subjectOf(envelope, undefined) };
}

/** Of those who came: the wait of each that is refused, null for the others, and what can be given back. */
export interface Admitted {
  readonly waits: readonly (number | null)[];
  readonly takings: Takings;
}

/** Decides who comes in: one task that is pushed, or a batch of a relay. */
export class Admission {
  readonly #deps: AdmissionDeps;
  #isClosed = false;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
  }

  /** The rates that a task must pass. */
  ratesOf(subject: Subject): readonly Limit[] {
    return this.#deps.book.of(subject).filter(({ rate }) => rate !== null);
  }

  /** Takes the rates of one task, or throws. A store that is away throws too: nobody comes in unseen. */
  async enter(newcomer: Newcomer, where: 'push' | 'admit'): Promise<Takings> {
    const { verdicts, takings, why } = await this.#judge([newcomer]);
    const verdict = verdicts[0] ?? null;
    if (verdict === null) return takings;
    const retryAfterMs = this.#tell(newcomer, verdict, where);
    throw rejected(
      newcomer.name,
      verdict.key,
      retryAfterMs,
      why ?? `${verdict.key} is at its rate`,
    );
  }

  /** Takes the rates of many at once. */
  async enterMany(newcomers: readonly Newcomer[]): Promise<Admitted> {
    const { verdicts, takings } = await this.#judge(newcomers);
    const waits = newcomers.map((newcomer, at) => {
      const verdict = verdicts[at] ?? null;
      return verdict === null ? null : this.#tell(newcomer, verdict, 'relay');
    });
    return { waits, takings };
  }

  /** Not null: the store has no room for new work, whatever it is; how long each of those who came is to wait. */
  async closedTo(newcomers: () => readonly Newcomer[]): Promise<readonly number[] | null> {
    const full = await this.#pressure();
    if ((full !== null) !== this.#isClosed) this.#tellClosed(full?.why ?? null);
    if (full === null) return null;
    const verdict = { key: STORE_KEY, waitMs: full.retryAfterMs };
    return newcomers().map(newcomer => this.#tell(newcomer, verdict, 'relay'));
  }

  /** Once for each time, not for each task. */
  #tellClosed(why: string | null): void {
    const { log } = this.#deps.runtime;
    this.#isClosed = why !== null;
    if (why === null) log.info({}, 'the store has room again');
    else log.warn({ why }, 'the store has no room: nothing new is published until it has');
  }

  /** Keeps room that was taken for whoever names this token in time. */
  async hold(token: string, holdMs: number): Promise<void> {
    await this.#deps.store.hold(token, holdMs);
  }

  /** A store that is away is not full. Who is limited hears of it when he asks for his rate; the others need it for nothing. */
  async #pressure(): ReturnType<AdmissionStore['pressure']> {
    try {
      return await this.#deps.store.pressure();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return null;
    }
  }

  async #judge(newcomers: readonly Newcomer[]): Promise<{
    readonly verdicts: readonly Verdict[];
    readonly takings: Takings;
    readonly why?: string;
  }> {
    const { store } = this.#deps;
    const full = await this.#pressure();
    if (full !== null) {
      const verdict = { key: STORE_KEY, waitMs: full.retryAfterMs };
      const { takings } = await takeRates([], store);
      return { verdicts: newcomers.map(() => verdict), takings, why: full.why };
    }
    const held = await this.#confirm(newcomers);
    const requests = newcomers.map((newcomer, at) =>
      held.has(at) ? [] : this.ratesOf(newcomer.subject),
    );
    return await takeRates(requests, store);
  }

  /** The places of those who have room already. */
  async #confirm(newcomers: readonly Newcomer[]): Promise<ReadonlySet<number>> {
    const uses = newcomers.flatMap(({ permit, id }, at) =>
      permit === null ? [] : [{ at, token: permit, task: id }],
    );
    if (uses.length === 0) return new Set();
    const answers = await this.#deps.store.confirm(uses);
    return new Set(uses.filter((_, index) => answers[index]).map(({ at }) => at));
  }

  #tell(
    newcomer: Newcomer,
    verdict: NonNullable<Verdict>,
    where: 'push' | 'admit' | 'relay',
  ): number {
    const { emit, random } = this.#deps.runtime;
    const { id, name, queue } = newcomer;
    const retryAfterMs = spread(verdict.waitMs, random.next());
    emit('admission:rejected', { id, name, queue, where, key: verdict.key, retryAfterMs });
    return retryAfterMs;
  }
}
