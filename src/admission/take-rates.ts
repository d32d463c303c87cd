import { intervalUs, type Rate } from '../task/admission-rule.ts';
import type { AdmissionStore, RateRefund } from './admission-store.ts';
import type { Limit } from './limits.ts';

/** The decision about one request: let in under all of its limits, or refused by one of them. */
export type Verdict = null | { readonly key: string; readonly waitMs: number };

/** What a batch took, and which part of it was not needed. */
export class RateReservations {
  readonly #store: Pick<AdmissionStore, 'refund'>;
  readonly #marks = new Map<string, { readonly rate: Rate; mark: number }>();
  readonly #spare = new Map<string, number>();

  constructor(store: Pick<AdmissionStore, 'refund'>) {
    this.#store = store;
  }

  note(key: string, rate: Rate, mark: number): void {
    this.#marks.set(key, { rate, mark });
  }

  /** These limits let one request in, but it does not come in after all. */
  spare(limits: readonly Limit[]): void {
    for (const { key } of limits) this.#spare.set(key, (this.#spare.get(key) ?? 0) + 1);
  }

  /** Gives back what is not needed, as far as possible without ever granting more than the limit. */
  async refund(): Promise<void> {
    const items: RateRefund[] = [];
    for (const [key, count] of this.#spare) {
      const known = this.#marks.get(key);
      if (known !== undefined) items.push({ key, rate: known.rate, count, mark: known.mark });
    }
    this.#spare.clear();
    if (items.length === 0) return;
    const answers = await this.#store.refund(items);
    for (const [index, { key, rate, count, mark }] of items.entries()) {
      if (answers[index]) this.note(key, rate, mark - count * intervalUs(rate));
      // Another process has taken since, so nothing of this batch can be given back any more.
      else this.#marks.delete(key);
    }
  }
}

/**
 * Takes the rates of many requests, one call for each depth of limits, however many requests there are. Earlier requests
 * come first; a request that a later limit refuses takes nothing from the earlier ones.
 */
export async function takeRates(
  requests: readonly (readonly Limit[])[],
  store: AdmissionStore,
): Promise<{ readonly verdicts: readonly Verdict[]; readonly reservations: RateReservations }> {
  const reservations = new RateReservations(store);
  const verdicts: Verdict[] = requests.map(() => null);
  const depth = Math.max(0, ...requests.map(limits => limits.length));
  for (let round = 0; round < depth; round++) {
    const asking = new Map<string, { readonly rate: Rate; readonly positions: number[] }>();
    for (const [position, limits] of requests.entries()) {
      const limit = limits[round];
      if (limit === undefined || limit.rate === null || verdicts[position] !== null) continue;
      const group = asking.get(limit.key) ?? { rate: limit.rate, positions: [] };
      group.positions.push(position);
      asking.set(limit.key, group);
    }
    const asks = [...asking].map(([key, { rate, positions }]) => ({
      key,
      rate,
      count: positions.length,
    }));
    const grants = asks.length === 0 ? [] : await store.take(asks);
    for (const [index, { key, rate }] of asks.entries()) {
      const { granted = 0, retryAfterMs = 0, mark = 0 } = grants[index] ?? {};
      reservations.note(key, rate, mark);
      const positions = asking.get(key)?.positions ?? [];
      for (const [nth, position] of positions.slice(granted).entries()) {
        // Each behind the one before it: if they returned together, all but one would be refused again.
        verdicts[position] = { key, waitMs: retryAfterMs + (nth * intervalUs(rate)) / 1_000 };
        reservations.spare((requests[position] ?? []).slice(0, round));
      }
    }
  }
  await reservations.refund();
  return { verdicts, reservations };
}
