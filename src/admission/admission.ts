import { isUnavailable } from '../errors/error.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { intervalUs } from '../task/admission-rule.ts';
import type { Envelope } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import type { AdmissionStore } from './admission-store.ts';
import { type Limit, type LimitBook, type Subject, subjectOf } from './limits.ts';
import { STORE_KEY, rejected, spread } from './permit.ts';
import { type RateReservations, type Verdict, takeRates } from './take-rates.ts';
import { WaitingLine } from './waiting-line.ts';

export interface AdmissionDeps {
  readonly store: AdmissionStore;
  readonly book: LimitBook;
  readonly runtime: Pick<Runtime, 'clock' | 'random' | 'emit' | 'log'>;
}

/** A task that asks to come in. */
export type AdmissionRequest = Pick<Envelope, 'id' | 'name' | 'queue'> & {
  readonly subject: Subject;
  /** A permit obtained earlier; null: none. */
  readonly permit: string | null;
  /** It was refused before, and has waited for its turn. */
  readonly isReturning?: boolean;
};

/** One that returns and is refused by so little was only early, or late: it goes to the front again. */
const NEAR_MS = 2_000;

/** The admission request of an envelope. */
export function admissionRequestOf(envelope: Envelope): AdmissionRequest {
  const { id, name, queue } = envelope;
  const { permit = null } = readOptions(envelope);
  return { id, name, queue, permit, subject: subjectOf(envelope, undefined) };
}

/** Per request: the wait if it is refused, null if not; and what can be given back. */
export interface Admitted {
  readonly waits: readonly (number | null)[];
  readonly reservations: RateReservations;
}

/** Decides which tasks come in: one task that is pushed, or a batch of a relay. */
export class Admission {
  readonly #deps: AdmissionDeps;
  readonly #line: WaitingLine;
  #isClosed = false;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
    this.#line = new WaitingLine(deps.runtime.clock);
  }

  /** The rates that a task must pass. */
  ratesOf(subject: Subject): readonly Limit[] {
    return this.#deps.book.of(subject).filter(({ rate }) => rate !== null);
  }

  /** Takes the rates of one task, or throws. Also throws when the store is away: no task comes in unchecked. */
  async enter(request: AdmissionRequest, where: 'push' | 'admit'): Promise<RateReservations> {
    const { verdicts, reservations, why } = await this.#judge([request]);
    const verdict = verdicts[0] ?? null;
    if (verdict === null) {
      this.#emitAdmitted(request, where);
      return reservations;
    }
    const retryAfterMs = this.#emitRejected(request, verdict, where);
    throw rejected(request.name, verdict.key, retryAfterMs, why ?? `${verdict.key} is at its rate`);
  }

  /** Takes the rates of many at once. */
  async enterMany(requests: readonly AdmissionRequest[]): Promise<Admitted> {
    const { verdicts, reservations } = await this.#judge(requests);
    const firstMs = new Map<string, number>();
    const waits = requests.map((request, at) => {
      const verdict = verdicts[at] ?? null;
      if (verdict === null) {
        this.#emitAdmitted(request, 'relay');
        return null;
      }
      const { key, waitMs } = verdict;
      if (!firstMs.has(key)) firstMs.set(key, waitMs);
      const isNear = waitMs - (firstMs.get(key) ?? 0) <= NEAR_MS;
      const inLine =
        request.isReturning === true && isNear ? waitMs : this.#lineUp(request, verdict);
      return this.#emitRejected(request, { key, waitMs: inLine }, 'relay');
    });
    return { waits, reservations };
  }

  /** A store that is full has no line. */
  #lineUp({ subject }: AdmissionRequest, { key, waitMs }: NonNullable<Verdict>): number {
    const rate = this.ratesOf(subject).find(limit => limit.key === key)?.rate ?? null;
    return rate === null ? waitMs : this.#line.join(key, waitMs, intervalUs(rate) / 1_000);
  }

  /** Not null: the store has no capacity for new work of any kind; how long each request is to wait. */
  async closedTo(requests: () => readonly AdmissionRequest[]): Promise<readonly number[] | null> {
    const full = await this.#pressure();
    if ((full !== null) !== this.#isClosed) this.#logClosed(full?.why ?? null);
    if (full === null) return null;
    const verdict = { key: STORE_KEY, waitMs: full.retryAfterMs };
    return requests().map(request => this.#emitRejected(request, verdict, 'relay'));
  }

  /** Reported once per change, not for each task. */
  #logClosed(why: string | null): void {
    const { log } = this.#deps.runtime;
    this.#isClosed = why !== null;
    if (why === null) log.info({}, 'the store has capacity again');
    else log.warn({ why }, 'the store has no capacity: nothing new is published until it has');
  }

  /** Keeps the capacity that was taken for the task that names this token in time. */
  async hold(token: string, holdMs: number): Promise<void> {
    await this.#deps.store.hold(token, holdMs);
  }

  /** A store that is away is not full. A limited task fails when it asks for its rate; the others do not need the store. */
  async #pressure(): ReturnType<AdmissionStore['pressure']> {
    try {
      return await this.#deps.store.pressure();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return null;
    }
  }

  async #judge(requests: readonly AdmissionRequest[]): Promise<{
    readonly verdicts: readonly Verdict[];
    readonly reservations: RateReservations;
    readonly why?: string;
  }> {
    const { store } = this.#deps;
    const full = await this.#pressure();
    if (full !== null) {
      const verdict = { key: STORE_KEY, waitMs: full.retryAfterMs };
      const { reservations } = await takeRates([], store);
      return { verdicts: requests.map(() => verdict), reservations, why: full.why };
    }
    const held = await this.#confirm(requests);
    const rates = requests.map((request, at) =>
      held.has(at) ? [] : this.ratesOf(request.subject),
    );
    return await takeRates(rates, store);
  }

  /** The indexes of requests with a valid permit. */
  async #confirm(requests: readonly AdmissionRequest[]): Promise<ReadonlySet<number>> {
    const uses = requests.flatMap(({ permit, id }, at) =>
      permit === null ? [] : [{ at, token: permit, task: id }],
    );
    if (uses.length === 0) return new Set();
    const answers = await this.#deps.store.confirm(uses);
    return new Set(uses.filter((_, index) => answers[index]).map(({ at }) => at));
  }

  /** Nothing for a task that no limit is about. */
  #emitAdmitted(request: AdmissionRequest, where: 'push' | 'admit' | 'relay'): void {
    const keys = this.ratesOf(request.subject).map(({ key }) => key);
    const { id, name, queue } = request;
    if (keys.length > 0)
      this.#deps.runtime.emit('admission:admitted', { id, name, queue, where, keys });
  }

  #emitRejected(
    request: AdmissionRequest,
    verdict: NonNullable<Verdict>,
    where: 'push' | 'admit' | 'relay',
  ): number {
    const { emit, random } = this.#deps.runtime;
    const { id, name, queue } = request;
    // Those that wait at a relay return one by one already.
    const isInLine = where === 'relay' && verdict.key !== STORE_KEY;
    const retryAfterMs = isInLine
      ? Math.ceil(verdict.waitMs)
      : spread(verdict.waitMs, random.next());
    emit('admission:rejected', { id, name, queue, where, key: verdict.key, retryAfterMs });
    return retryAfterMs;
  }
}
