import type { Pool } from 'pg';

export interface Verdict {
  readonly committed: number;
  readonly done: number;
  readonly dead: number;
  readonly lost: number;
  readonly phantom: number;
  readonly staleCommits: number;
  readonly doubleCommits: number;
  readonly doubleEffects: number;
  readonly missingEffects: number;
  readonly doubleFollows: number;
  readonly missingFollows: number;
  readonly executions: number;
  readonly crashes: number;
}

/** The lines of a task's history, in the order in which the store itself wrote them. */
const LINES = `select t.id, l.place, (l.line::json ->> 'step') as step, (l.line::json ->> 'epoch')::bigint as epoch
  from outlast_task t, unnest(string_to_array(rtrim(convert_from(t.history, 'UTF8'), E'\\n'), E'\\n')) with ordinality as l(line, place)
  where t.name = 'torture.effect'`;

const CHECKS: Readonly<Record<keyof Verdict, string>> = {
  committed: 'select count(*) from led_commit',
  done: `select count(*) from outlast_task where name = 'torture.effect' and state = 'done'`,
  dead: `select count(*) from outlast_task where name = 'torture.effect' and state = 'dead'`,
  lost: `select count(*) from led_commit c left join outlast_task t on t.id = c.task_id where t.id is null or t.state not in ('done', 'dead')`,
  phantom:
    'select count(distinct e.task_id) from led_exec e left join led_commit c using (task_id) where c.task_id is null',
  // A commit is stale when a higher epoch had begun before it, in the order of the row that took both.
  staleCommits: `with l as (${LINES}) select count(*) from l d where d.step = 'done' and exists
    (select 1 from l b where b.id = d.id and b.step = 'begun' and b.place < d.place and b.epoch > d.epoch)`,
  doubleCommits: `with l as (${LINES}) select count(*) from (select id from l where step = 'done' group by id having count(*) > 1) d`,
  doubleEffects:
    'select count(*) from (select task_id from led_effect group by task_id having count(*) > 1) d',
  missingEffects: `select count(*) from outlast_task t where t.name = 'torture.effect' and t.state = 'done' and not exists (select 1 from led_effect e where e.task_id = t.id)`,
  doubleFollows:
    'select count(*) from (select parent from led_follow group by parent having count(*) > 1) d',
  missingFollows: `select count(*) from led_commit c where c.follows and not exists (select 1 from led_follow f where f.parent = c.task_id)`,
  executions: 'select count(*) from led_exec',
  crashes: `select coalesce(sum(crashes), 0) from outlast_task where name = 'torture.effect'`,
};

export async function check(pool: Pool): Promise<Verdict> {
  const verdict: Record<string, number> = {};
  for (const [name, text] of Object.entries(CHECKS)) {
    const { rows } = await pool.query<{ count: string; coalesce: string }>(text);
    verdict[name] = Number(rows[0]?.count ?? rows[0]?.coalesce);
  }
  return verdict as unknown as Verdict;
}

/** What must be zero. */
export const VIOLATIONS: readonly (keyof Verdict)[] = [
  'lost',
  'phantom',
  'staleCommits',
  'doubleCommits',
  'doubleEffects',
  'missingEffects',
  'doubleFollows',
  'missingFollows',
];
