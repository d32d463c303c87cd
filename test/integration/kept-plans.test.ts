import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const MARK = '/* kept plan */';
const KEPT = Object.entries(SQL).filter(([, text]) => text.startsWith(MARK));

/** What may be in the table when a session makes a plan and keeps it. */
const CONTENTS: Readonly<Record<string, string>> = {
  'no statistics': 'select 1',
  'an empty table': 'vacuum analyze outlast_task',
  'tasks that are over': filled('done', 20_000),
  'tasks that wait': filled('waiting', 20_000),
  'tasks that run': filled('running', 5_000),
  'tasks that were set aside': filled('refused', 5_000),
};

function filled(state: string, count: number): string {
  return `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, owner)
    select gen_random_uuid()::text, 'some', 'q' || n % 100, 5, 1, '[[],{},{}]', '{}', 'd', '${state}', 'w'
    from generate_series(1, ${count}) n`;
}

interface Plan {
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly Plan[];
}

const nodesOf = (plan: Plan): readonly Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('kept_plans');
  await database.pool.query('alter table outlast_task set (autovacuum_enabled = off)');
});

afterAll(() => database.dispose());

/** How a statement reads tables of ours, if it is planned now in a session of a worker. */
async function readsOf(text: string): Promise<readonly string[]> {
  const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
  try {
    await db.query(`${MARK} prepare kept as ${text}`);
    const count = Math.max(...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)));
    const values = Array.from({ length: count }, () => 'null').join(', ');
    const [row] = await db.query(`${MARK} explain (format json) execute kept (${values})`);
    const [{ Plan }] = JSON.parse(row?.['QUERY PLAN'] as string) as [{ Plan: Plan }];
    return (
      nodesOf(Plan)
        .filter(node => node['Relation Name'] !== undefined && 'Index Name' in node)
        .map(node => `${node['Index Name']}: ${node['Index Cond'] ?? 'all of it'}`)
        // Whether tasks were set aside at all: the planner may use either index of theirs, and has until it knows how many there are.
        .filter(read => !read.startsWith('outlast_task_refused'))
        .toSorted()
    );
  } finally {
    await db.close();
  }
}

describe('a statement whose plan is kept', () => {
  it('looks rows up by the same indexes, whatever was in the table when it was planned', async () => {
    expect(KEPT.map(([name]) => name)).toEqual([
      'beginDue',
      'commitPlain',
      'commit',
      'fail',
      'ledgerNextDue',
      'release',
    ]);
    const first = new Map<string, readonly string[]>();
    for (const [content, text] of Object.entries(CONTENTS)) {
      await database.pool.query(text);
      if (text.startsWith('insert')) await database.pool.query('vacuum analyze outlast_task');
      for (const [name, statement] of KEPT) {
        const reads = await readsOf(statement);
        const before = first.get(name) ?? reads;
        first.set(name, before);
        expect([content, name, reads]).toEqual([content, name, before]);
        expect(reads).not.toEqual([]);
        // There are as many objectives as tasks that have one: all of them are a page.
        const whole = reads.filter(read => read.endsWith('all of it'));
        expect(whole.filter(read => !read.startsWith('outlast_objective'))).toEqual([]);
      }
    }
  });
});
