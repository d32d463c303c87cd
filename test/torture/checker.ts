import type { Pool } from 'pg';
import type { LedgerReads } from '../../src/ledger/ledger-reads.ts';

export interface Verdict {
  readonly committed: number;
  readonly done: number;
  readonly dead: number;
  readonly lost: number;
  /** Their COMMIT was answered, and the books have nothing of it. */
  readonly unkept: number;
  readonly phantom: number;
  readonly staleCommits: number;
  readonly doubleCommits: number;
  readonly doubleEffects: number;
  readonly missingEffects: number;
  readonly doubleFollows: number;
  readonly missingFollows: number;
  /** By how much the totals of the ledger differ from what is done. */
  readonly miscounted: number;
  readonly executions: number;
  readonly crashes: number;
}

/** What a ledger, wherever it is, has of the tasks that were committed: see `tellLedger`. */
export const BOOKS: readonly string[] = [
  'create table led_task (task_id text primary key, state text not null, crashes int not null)',
  'create table led_line (task_id text not null, place int not null, step text not null, epoch bigint not null)',
  'create table led_total (name text not null, figure text not null, count bigint not null)',
];

/** Writes down what became of every task, with its history in the order in which the store itself wrote it, and its totals. */
export async function tellLedger(
  pool: Pool,
  reads: Pick<LedgerReads, 'inspect' | 'totals'>,
): Promise<void> {
  for (const { name, counts } of await reads.totals())
    for (const [figure, count] of Object.entries(counts))
      await pool.query('insert into led_total values ($1, $2, $3)', [name, figure, count]);
  const { rows } = await pool.query<{ task_id: string }>('select task_id from led_commit');
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    const some = rows.slice(from, from + AT_ONCE);
    const found = await Promise.all(some.map(row => reads.inspect(row.task_id)));
    const tasks = found.filter(details => details !== null);
    const lines = tasks.flatMap(({ id, history }) =>
      history.map(({ step, epoch }, place) => ({ task_id: id, place, step, epoch })),
    );
    await pool.query(
      `insert into led_task select t.* from json_to_recordset($1) t(task_id text, state text, crashes int)`,
      [JSON.stringify(tasks.map(({ id, state, crashes }) => ({ task_id: id, state, crashes })))],
    );
    await pool.query(
      `insert into led_line select l.* from json_to_recordset($1) l(task_id text, place int, step text, epoch bigint)`,
      [JSON.stringify(lines)],
    );
  }
}

const AT_ONCE = 100;

const CHECKS: Readonly<Record<Exclude<keyof Verdict, 'unkept'>, string>> = {
  committed: 'select count(*) from led_commit',
  done: `select count(*) from led_task where state = 'done'`,
  dead: `select count(*) from led_task where state = 'dead'`,
  lost: `select count(*) from led_commit c left join led_task t using (task_id) where t.task_id is null or t.state not in ('done', 'dead')`,
  phantom:
    'select count(distinct e.task_id) from led_exec e left join led_commit c using (task_id) where c.task_id is null',
  // A commit is stale when a higher epoch had begun before it, in the order of the record that took both, or has run at
  // all: what is done is never begun again.
  staleCommits: `select count(*) from led_line d where d.step = 'done' and (exists
    (select 1 from led_line b where b.task_id = d.task_id and b.step = 'begun' and b.place < d.place and b.epoch > d.epoch)
    or exists (select 1 from led_exec e where e.task_id = d.task_id and e.epoch > d.epoch))`,
  doubleCommits: `select count(*) from (select task_id from led_line where step = 'done' group by task_id having count(*) > 1) d`,
  doubleEffects:
    'select count(*) from (select task_id from led_effect group by task_id having count(*) > 1) d',
  missingEffects: `select count(*) from led_task t where t.state = 'done' and not exists (select 1 from led_effect e where e.task_id = t.task_id)`,
  doubleFollows:
    'select count(*) from (select parent from led_follow group by parent having count(*) > 1) d',
  missingFollows: `select count(*) from led_commit c where c.follows and not exists (select 1 from led_follow f where f.parent = c.task_id)`,
  miscounted: `select abs((select coalesce(sum(count), 0) from led_total where name = 'torture.effect' and figure = 'done')
    - (select count(*) from led_task where state = 'done')) as count`,
  executions: 'select count(*) from led_exec',
  crashes: 'select coalesce(sum(crashes), 0) from led_task',
};

/** @param acknowledged the tasks whose COMMIT was answered */
export async function check(pool: Pool, acknowledged: readonly string[]): Promise<Verdict> {
  const { rows: kept } = await pool.query('select from led_commit where task_id = any($1)', [
    acknowledged,
  ]);
  const verdict: Record<string, number> = { unkept: acknowledged.length - kept.length };
  for (const [name, text] of Object.entries(CHECKS)) {
    const { rows } = await pool.query<{ count: string; coalesce: string }>(text);
    verdict[name] = Number(rows[0]?.count ?? rows[0]?.coalesce);
  }
  return verdict as unknown as Verdict;
}

/** What must be zero. */
export const VIOLATIONS: readonly (keyof Verdict)[] = [
  'lost',
  'unkept',
  'phantom',
  'staleCommits',
  'doubleCommits',
  'doubleEffects',
  'missingEffects',
  'doubleFollows',
  'missingFollows',
  'miscounted',
];
