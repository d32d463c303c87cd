// @ts-check
/**
 * Measures cases side by side. Every round visits them in turn many times over (A B C A B C ...), so that what else the
 * machine does falls on all of them, and figures are compared within their round.
 */

/**
 * @typedef {object} Case
 * @property {string} name
 * @property {(count: number) => Promise<void>} run does it `count` times
 *
 * @typedef {object} Result
 * @property {string} name
 * @property {number} perSecond median of the rounds
 * @property {readonly number[]} rounds
 */

/** Medians of three rounds. */
export const ROUNDS = 3;

/**
 * @param {readonly Case[]} cases
 * @param {{ slices: number, count: number, warmUp: number, betweenRounds?: () => Promise<void> }} plan
 *   `slices`: how often a round visits each case; `count`: how often a visit does it
 * @returns {Promise<readonly Result[]>}
 */
export async function measure(cases, { slices, count, warmUp, betweenRounds }) {
  for (const { run } of cases) await run(warmUp);
  const seconds = cases.map(() => Array.from({ length: ROUNDS }, () => 0));
  for (let round = 0; round < ROUNDS; round++) {
    await betweenRounds?.();
    for (let slice = 0; slice < slices; slice++) {
      for (const [index, { run }] of cases.entries()) {
        const row = /** @type {number[]} */ (seconds[index]);
        row[round] = /** @type {number} */ (row[round]) + (await secondsOf(() => run(count)));
      }
    }
  }
  return cases.map(({ name }, index) => {
    const rounds = /** @type {number[]} */ (seconds[index]).map(sum => (slices * count) / sum);
    return { name, rounds, perSecond: median(rounds) };
  });
}

/** @param {() => Promise<unknown>} body */
export async function secondsOf(body) {
  const startedAt = performance.now();
  await body();
  return (performance.now() - startedAt) / 1000;
}

/** @param {readonly number[]} values */
export function median(values) {
  return quantile(values, 0.5);
}

/**
 * @param {readonly number[]} values
 * @param {number} share 0.99 for the ninety-ninth percentile
 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * How much faster one result is than another: the median of the ratios within each round.
 * @param {readonly Result[]} results
 * @param {string} name
 * @param {string} other
 */
export function ratioOf(results, name, other) {
  const [a, b] = [name, other].map(wanted => results.find(one => one.name === wanted));
  if (!a || !b) throw new Error(`no result of ${name} or ${other}`);
  return median(a.rounds.map((rate, round) => rate / (b.rounds[round] ?? Number.NaN)));
}
