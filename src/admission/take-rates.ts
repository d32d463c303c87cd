import { intervalUs, type Rate } from '../task/admission-rule.ts';
import type { AdmissionStore, RateTaking } from './admission-store.ts';
import type { Limit } from './limits.ts';

/** What became of one request: let in under all of its limits, or refused by one of them. */
export type Verdict = null | { readonly key: string; readonly waitMs: number };

/** What a batch took, and what of it was not needed. */
export class Takings {
  readonly #store: Pick<AdmissionStore, 'refund'>;
  readonly #marks = new Map<string, { readonly rate: Rate; mark: number }>();
  readonly #spare = new Map<string, number>();

  constructor(store: Pick<AdmissionStore, 'refund'>) {
    this.#store = store;
  }

  note(key: string, rate: Rate, mark: number): void {
    this.#marks.set(key, { rate, mark });
  }

  /** One request was let in by these and does not come in after all. */
  spare(limits: readonly Limit[]): void {
    for (const { key } of limits) this.#spare.set(key, (this.#spare.get(key) ?? 0) + 1);
  }

  /** Gives back what is not needed, as far as that can be done without ever granting more than the limit. */
  async refund(): Promise<void> {
    const items: RateTaking[] = [];
    for (const [key, count] of this.#spare) {
      const known = this.#marks.get(key);
      if (known !== undefined) items.push({ key, rate: known.rate, count, mark: known.mark });
    }
    this.#spare.clear();
    if (items.length === 0) return;
    const answers = await this.#store.refund(items);
    for (const [index, { key, rate, count, mark }] of items.entries()) {
      if (answers[index]) this.note(key, rate, mark - count * intervalUs(rate));
      // Somebody has taken since, so nothing of this batch can be given back any more.
      else this.#marks.delete(key);
    }
  }
}

/**
 * Takes the rates of many requests, one call for each depth of limits however many ask. Those in front come first; who is
 * refused by a later limit takes nothing from the earlier ones.
 */
export async function takeRates(
  requests: readonly (readonly Limit[])[],
  store: AdmissionStore,
): Promise<{ readonly verdicts: readonly Verdict[]; readonly takings: Takings }> {
  const takings = new Takings(store);
  const verdicts: Verdict[] = requests.map(() => null);
  const depth = Math.max(0, ...requests.map(limits => limits.length));
  for (let round = 0; round < depth; round++) {
    const asking = new Map<string, { readonly rate: Rate; readonly places: number[] }>();
    for (const [place, limits] of requests.entries()) {
      const limit = limits[round];
      if (limit === undefined || limit.rate === null || verdicts[place] !== null) continue;
      const group = asking.get(limit.key) ?? { rate: limit.rate, places: [] };
      group.places.push(place);
      asking.set(limit.key, group);
    }
    const asks = [...asking].map(([key, { rate, places }]) => ({
      key,
      rate,
      count: places.length,
    }));
    const grants = asks.length === 0 ? [] : await store.take(asks);
    for (const [index, { key, rate }] of asks.entries()) {
      const { granted = 0, retryAfterMs = 0, mark = 0 } = grants[index] ?? {};
      takings.note(key, rate, mark);
      const places = asking.get(key)?.places ?? [];
      for (const [nth, place] of places.slice(granted).entries()) {
        // Each behind the one before it: returning together, all but one would be refused again.
        verdicts[place] = { key, waitMs: retryAfterMs + (nth * intervalUs(rate)) / 1_000 };
        takings.spare((requests[place] ?? []).slice(0, round));
      }
    }
  }
  await takings.refund();
  return { verdicts, takings };
}
