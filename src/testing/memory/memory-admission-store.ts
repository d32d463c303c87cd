import type {
  AdmissionStore,
  KeyFigures,
  PermitUse,
  Reservation,
  ReserveReply,
  ReserveRequest,
  ReservationHolder,
  ReservationWish,
  RateAsk,
  RateGrant,
  RateRefund,
  SweepReply,
} from '../../admission/admission-store.ts';
import { takeFrom } from '../../admission/gcra.ts';
import type { Clock } from '../../runtime/runtime.ts';
import { intervalUs, type Rate } from '../../task/admission-rule.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import type { TaskRecord } from './memory-record.ts';

interface KeyState {
  tatUs: number;
  rate: Rate | null;
  concurrency: number | null;
  rejected: number;
  /** By holder. */
  readonly places: Map<string, ReservationHolder>;
  /** Tasks without a reservation, the longest waiting first. */
  readonly wanted: Set<string>;
}

interface Permit {
  task: string | null;
  readonly endsMs: number;
}

export interface MemoryAdmissionOptions {
  /** The store's clock: the only one that counts here. */
  readonly clock: Pick<Clock, 'now'>;
  readonly ledger: MemoryLedger;
  /** Is the run with this reservation over? The simulator puts known mistakes here. */
  readonly isOver?: (holder: ReservationHolder, record: TaskRecord | undefined) => boolean;
}

const isOverHere = ({ run }: ReservationHolder, record: TaskRecord | undefined): boolean =>
  record === undefined || record.state !== 'running' || record.run !== run;

/** Admission in memory, with the same comparisons as elsewhere. */
export class MemoryAdmissionStore implements AdmissionStore {
  readonly #options: MemoryAdmissionOptions;
  readonly #keys = new Map<string, KeyState>();
  readonly #permits = new Map<string, Permit>();
  /** What `pressure` returns. */
  full: { readonly retryAfterMs: number; readonly why: string } | null = null;

  constructor(options: MemoryAdmissionOptions) {
    this.#options = options;
  }

  async take(asks: readonly RateAsk[]): Promise<readonly RateGrant[]> {
    return asks.map(({ key, rate, count }) => {
      const state = this.#state(key);
      const { granted, tatUs, waitUs } = takeFrom(state.tatUs, this.#nowUs, rate, count);
      Object.assign(state, { tatUs, rate, rejected: state.rejected + count - granted });
      return { granted, retryAfterMs: Math.ceil(waitUs / 1_000), mark: tatUs };
    });
  }

  async refund(reservations: readonly RateRefund[]): Promise<readonly boolean[]> {
    return reservations.map(({ key, rate, count, mark }) => {
      const state = this.#keys.get(key);
      if (state === undefined || state.tatUs !== mark) return false;
      state.tatUs -= count * intervalUs(rate);
      return true;
    });
  }

  async hold(token: string, holdMs: number): Promise<void> {
    this.#permits.set(token, { task: null, endsMs: this.#options.clock.now() + holdMs });
  }

  async confirm(uses: readonly PermitUse[]): Promise<readonly boolean[]> {
    return uses.map(({ token, task }) => {
      const permit = this.#permits.get(token);
      if (permit === undefined || permit.endsMs <= this.#options.clock.now()) return false;
      permit.task ??= task;
      return permit.task === task;
    });
  }

  async reserve({ key, limit, holders }: ReserveRequest): Promise<ReserveReply> {
    const state = this.#state(key);
    state.concurrency = limit;
    const isIn = holders.map(holder => {
      const name = nameOf(holder);
      if (!state.places.has(name) && state.places.size >= limit) {
        state.rejected += 1;
        return false;
      }
      state.places.set(name, holder);
      state.wanted.delete(holder.task);
      return true;
    });
    return { isIn, waiting: state.wanted.size };
  }

  async want({ key, limit, task }: ReservationWish): Promise<boolean> {
    const state = this.#state(key);
    const hasRoom = state.places.size < limit;
    if (!hasRoom) state.wanted.add(task);
    return hasRoom;
  }

  async free(places: readonly Reservation[]): Promise<readonly string[]> {
    return places.flatMap(place => {
      const state = this.#keys.get(place.key);
      if (state === undefined || !state.places.delete(nameOf(place))) return [];
      const [next] = state.wanted;
      if (next === undefined) return [];
      state.wanted.delete(next);
      return [next];
    });
  }

  async sweep(key: string | null, limit: number): Promise<SweepReply> {
    const { ledger, isOver = isOverHere } = this.#options;
    const { records } = ledger.state;
    const over: Reservation[] = [];
    for (const [name, state] of this.#keys) {
      if (key !== null && key !== name) continue;
      for (const holder of state.places.values())
        if (isOver(holder, records.get(holder.task))) over.push({ key: name, ...holder });
    }
    const some = over.slice(0, limit);
    return { freed: some.length, wake: await this.free(some) };
  }

  async pressure(): Promise<MemoryAdmissionStore['full']> {
    return this.full;
  }

  async figures(): Promise<readonly KeyFigures[]> {
    const all = [...this.#keys].map(([key, state]) => {
      const { tatUs, rate, concurrency, rejected, places, wanted } = state;
      const available = rate && takeFrom(tatUs, this.#nowUs, rate, rate.burst).granted;
      const counts = { held: places.size, waiting: wanted.size };
      return { key, rate, available, concurrency, ...counts, rejected };
    });
    return all.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  }

  async prune(): Promise<void> {
    for (const [token, { endsMs }] of this.#permits)
      if (endsMs <= this.#options.clock.now()) this.#permits.delete(token);
  }

  get #nowUs(): number {
    return this.#options.clock.now() * 1_000;
  }

  #state(key: string): KeyState {
    const known = this.#keys.get(key);
    if (known !== undefined) return known;
    const made: KeyState = {
      tatUs: 0,
      rate: null,
      concurrency: null,
      rejected: 0,
      places: new Map(),
      wanted: new Set(),
    };
    this.#keys.set(key, made);
    return made;
  }
}

const nameOf = ({ task, run }: ReservationHolder): string => `${task}\n${run}`;
