import { describe, expect, it, onTestFinished } from 'vitest';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { endedKey } from '../../src/ledger/ledger.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

async function setup(): Promise<MigratedDatabase> {
  const database = await migratedDatabase('trouble');
  onTestFinished(() => database.dispose());
  return database;
}

const WAITING = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;

const echo = task('trouble.echo', { input: unchecked<number>(), result: unchecked<number>() });

describe('a poison row', () => {
  it('spends its own retries and becomes a dead letter while the others arrive', async () => {
    const { url, pool } = await setup();
    await pool.query(
      `alter table outlast_task add constraint poison check (name <> 'trouble.poison')`,
    );
    const outlast = createOutlast({ database: url });
    const poison = task('trouble.poison');
    const [bad, ...good] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [
        poison.with(undefined, { orderingKey: 'poison' }),
        ...[1, 2, 3, 4].map(n => echo.with(n, { orderingKey: `key-${n}` })),
      ]),
    );
    const relay = await startRelay(outlast, {
      maxRetries: 2,
      backoffTime: '10ms',
      idleTime: '20ms',
    });
    for (const handle of good) await until(async () => (await handle.state()) === 'waiting');
    await until(async () => (await bad.state()) === 'dead');
    await relay.stop();
    await outlast.close();
  });
});

describe('an id that two sessions write at once', () => {
  it('is of one task, also if the first session cancels it: what follows is told', async () => {
    const { url, pool } = await setup();
    const outlast = createOutlast({ database: url });
    const options = { id: 'cancelled', linkError: echo.with(1) };
    const other = await pool.connect();
    await other.query('begin');
    await other.query(SQL.cancel, ['cancelled', '60000']);
    const sending = outlast.transaction(tx => outlast.send(tx, echo, 1, options));
    await until(async () => (await pool.query(WAITING)).rowCount);
    await other.query('commit');
    other.release();
    const sent = await sending;
    expect(sent.isNew).toBe(false);
    expect(await sent.state()).toBe('cancelled');
    expect((await pool.query('select key from outlast_after')).rows).toEqual([
      { key: endedKey('cancelled', 0) },
    ]);
    await outlast.close();
  });

  it('loses neither of two tasks: the later one is kept as a dead letter under id and digest', async () => {
    const { url, pool } = await setup();
    const outlast = createOutlast({ database: url });
    const ids = { id: 'same' };
    const first = await outlast.transaction(tx => outlast.send(tx, echo, 1, ids));
    expect(await first.state()).toBe('waiting');
    // The other session has written the row and not committed yet: a move must wait for it and then look again.
    const other = await pool.connect();
    await other.query('begin');
    await other.query(`update outlast_task set id = 'other' where id = 'same'`);
    const ordered = { ...ids, orderingKey: 'key' };
    await outlast.transaction(tx => outlast.send(tx, echo, 2, ordered));
    const again = await startRelay(outlast, { idleTime: '20ms' });
    await until(async () => (await pool.query(WAITING)).rowCount);
    await other.query('rollback');
    other.release();
    await until(
      async () =>
        (await pool.query(`select 1 from outlast_task where id like 'same#%' and state = 'dead'`))
          .rowCount,
    );
    expect((await pool.query('select 1 from outlast_outbox')).rowCount).toBe(0);
    const { rows } = await pool.query(`select state from outlast_task order by state`);
    expect(rows).toEqual([{ state: 'dead' }, { state: 'waiting' }]);
    await again.stop();
    await outlast.close();
  });
});

describe('a database that goes away', () => {
  it('read-only, as in a failover, and comes back: relay, worker and resurrector carry on', async () => {
    const { url, pool } = await setup();
    const name = new URL(url).pathname.slice(1);
    const outlast = createOutlast({ database: url });
    const services = [
      await startRelay(outlast),
      await startWorker(outlast, { tasks: [outlast.handler(echo, n => n)] }),
      await startResurrector(outlast),
    ];
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 1));
    expect(await sent.result()).toBe(1);
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()`;
    await pool.query(`alter database ${name} set default_transaction_read_only = on`);
    await pool.query(cut, [name]);
    await until(
      async () =>
        (
          await pool.query(
            `select 1 from pg_stat_activity where datname = $1 and application_name = 'outlast-listen'`,
            [name],
          )
        ).rowCount,
    );
    await pool.query('set default_transaction_read_only = off');
    await pool.query(`alter database ${name} set default_transaction_read_only = off`);
    await pool.query(cut, [name]);
    const next = await until(() =>
      outlast.transaction(tx => outlast.send(tx, echo, 2)).catch(() => null),
    );
    expect(await next.result()).toBe(2);
    for (const service of services) await service.stop();
    await outlast.close();
  });
});
