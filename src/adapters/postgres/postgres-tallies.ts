import {
  addUp,
  BUCKETS_KEPT_MS,
  KEPT_FIGURES,
  MINUTES_KEPT_MS,
  MOST_AHEAD_MS,
  MOST_SERIES,
  OTHER_NAME,
  type Bucket,
  type Objective,
  type ObjectiveCounts,
  type TaskTotals,
} from '../../ledger/tallies.ts';
import type { Slo } from '../../task/slo.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Counts of one call: each batch of tasks has left one or a few. */
const FOLDED_AT_ONCE = 10_000;
const MOST_FOLDS = 20;

/** The parameters of `open-worker` about objectives. */
export function objectiveColumns(
  promised: Readonly<Record<string, Slo | null>>,
): readonly (readonly (string | number | null)[])[] {
  const all = Object.entries(promised);
  const without = all.flatMap(([name, slo]) => (slo === null ? [name] : []));
  const said = all.flatMap(([name, slo]) => (slo === null ? [] : [{ name, slo }]));
  return [
    without,
    said.map(({ name }) => name),
    said.map(({ slo }) => slo.success),
    said.map(({ slo }) => slo.latency?.withinMs ?? null),
    said.map(({ slo }) => slo.latency?.target ?? null),
  ];
}

/** Adds the counts of steps to the sums, and minutes to hours when they are old. */
export async function foldTallies(db: SqlDatabase): Promise<void> {
  for (let folds = 0; folds < MOST_FOLDS; folds++) {
    const asked = [FOLDED_AT_ONCE, MOST_SERIES, OTHER_NAME];
    const [row] = await db.query(SQL.tallyFold, asked);
    if (Number(row?.['folded']) < FOLDED_AT_ONCE) break;
  }
  await db.query(SQL.tallyAge, [MINUTES_KEPT_MS, BUCKETS_KEPT_MS, MOST_AHEAD_MS]);
}

export async function totals(db: SqlDatabase): Promise<readonly TaskTotals[]> {
  const rows = await db.query(SQL.tallyTotals);
  return addUp(
    rows.map(row => ({
      name: row['name'] as string,
      queue: row['queue'] as string,
      figure: row['figure'] as string,
      count: Number(row['count']),
    })),
  );
}

export async function objectives(db: SqlDatabase): Promise<ObjectiveCounts> {
  const rows = await db.query(SQL.tallyObjectives, [[...KEPT_FIGURES]]);
  const found = new Map<string, Objective & { buckets: Bucket[] }>();
  for (const row of rows) {
    const name = row['name'] as string | null;
    if (name === null) continue;
    const known = found.get(name) ?? { name, slo: sloIn(row), buckets: [] };
    found.set(name, known);
    if (row['figure'] === null) continue;
    known.buckets.push({
      startMs: Number(row['at_ms']),
      figure: row['figure'] as Bucket['figure'],
      count: Number(row['count']),
    });
  }
  return { nowMs: Number(rows[0]?.['store_ms']), objectives: [...found.values()] };
}

function sloIn(row: SqlRow): Slo {
  const numberIn = (column: string): number | null =>
    row[column] === null ? null : Number(row[column]);
  const [withinMs, target] = [numberIn('within_ms'), numberIn('latency')];
  const latency = withinMs === null || target === null ? null : { withinMs, target };
  return { success: numberIn('success'), latency };
}
