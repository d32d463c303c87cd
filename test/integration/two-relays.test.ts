import { describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startRelay } from '../../dist/index.js';
import {
  migratedDatabase,
  migratedMariadb,
  until,
  type MigratedDatabase,
} from '../support/database.ts';

const ROWS = 20_000;
/** Every fourth row failed before, and its backoff is over. */
const RETRIES = ROWS / 4;

interface Outbox {
  readonly url: string;
  fill(): Promise<unknown>;
  count(): Promise<number>;
}

async function inPostgres(): Promise<Outbox> {
  const database = await migratedDatabase('two_relays');
  onTestFinished(() => database.dispose());
  const { url, pool } = database;
  return {
    url,
    fill: () =>
      pool.query(
        `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
           schema_version, payload_version, available_at, retries)
         select 'task-' || n, 'relays.task', 'relays', 0, '[]', '{}', '{}', '{}', 'digest-' || n, 1, 1,
           now() - n * interval '1 millisecond', case when n % 4 = 0 then 1 else 0 end
         from generate_series(1, ${ROWS}) n`,
      ),
    count: async () => {
      const { rows } = await pool.query<{ n: number }>(
        'select count(*)::int as n from outlast_outbox',
      );
      return rows[0]?.n ?? 0;
    },
  };
}

async function inMariadb(): Promise<Outbox> {
  const database = await migratedMariadb('two_relays');
  onTestFinished(() => database.dispose());
  const { url, pool } = database;
  return {
    url,
    fill: () =>
      pool.query(
        `insert into outlast_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest,
           schema_version, payload_version, available_at, retries, error_history, created_at, updated_at)
         with recursive digit (d) as (select 0 union all select d + 1 from digit where d < 199)
         select concat('task-', n), 'relays.task', 'relays', 0, '[]', '{}', '{}', '{}', concat('digest-', n), 1, 1,
           utc_timestamp(6) - interval n * 1000 microsecond, case when n % 4 = 0 then 1 else 0 end, '',
           utc_timestamp(6), utc_timestamp(6)
         from (select a.d * 200 + b.d + 1 as n from digit a cross join digit b) numbers where n <= ${ROWS}`,
      ),
    count: async () => {
      const [rows] = await pool.query('select count(*) as n from outlast_outbox');
      return Number((rows as { n: unknown }[])[0]?.n);
    },
  };
}

/** Records every published message, also copies, which the ledger itself would drop silently. */
async function noteArrivals({ pool }: MigratedDatabase): Promise<void> {
  await pool.query(`
    create table arrival (id text not null);
    create function note_arrival() returns trigger language plpgsql as
      $$ begin insert into arrival values (new.id); return new; end $$;
    create trigger note_arrival before insert on outlast_task for each row execute function note_arrival();`);
}

describe.each([
  ['PostgreSQL', inPostgres],
  ['MariaDB', inMariadb],
] as const)('two relays on one outbox in %s', (_, makeOutbox) => {
  it('publish every row once, including due retries', async () => {
    const main = await migratedDatabase('two_relays_main');
    onTestFinished(() => main.dispose());
    await noteArrivals(main);
    const outbox = await makeOutbox();
    await outbox.fill();
    expect(await outbox.count()).toBe(ROWS);
    const outboxes = { crm: { database: outbox.url } };
    const sent = [0, 0];
    const relays = await Promise.all(
      sent.map(async (_count, place) => {
        const outlast = createOutlast({ database: main.url, outboxes, outbox: 'crm' });
        onTestFinished(() => outlast.close());
        outlast.on('task:sent', () => void (sent[place] = (sent[place] ?? 0) + 1));
        return await startRelay(outlast, { batchSize: 200, publishConcurrency: 200 });
      }),
    );
    await until(async () => (await outbox.count()) === 0);
    await Promise.all(relays.map(relay => relay.stop()));
    const { rows } = await main.pool.query(
      `select count(*)::int as arrivals, count(distinct id)::int as tasks,
           count(*) filter (where substr(id, 6)::int % 4 = 0)::int as retried from arrival`,
    );
    expect(rows).toEqual([{ arrivals: ROWS, tasks: ROWS, retried: RETRIES }]);
    expect(sent.every(count => count > 0)).toBe(true);
  });
});
