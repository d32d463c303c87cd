import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  runOnce,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { CliProject, SHOP } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

const note = task('own.note', { input: unchecked<string>(), result: unchecked<string>() });
const ordered = task('own.ordered', {
  input: unchecked<string>(),
  result: unchecked<string>(),
  ordering: { key: () => 'one' },
});
const limited = task('own.limited', {
  input: unchecked<string>(),
  result: unchecked<string>(),
  admission: { key: () => 'one', rate: { limit: 1_000, per: '1s' } },
});
const all = [note, ordered, limited] as const;

beforeAll(async () => {
  database = await migratedDatabase('own_relay');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
});

const handlers = () => all.map(one => outlast.handler(one, input => `ran ${input}`));

const outboxRows = async (): Promise<number> =>
  (await database.pool.query('select 1 from outlast_outbox')).rowCount ?? -1;

describe('without a broker, and with no relay anywhere', () => {
  it('a worker runs plain, ordered and limited tasks that were committed before and after its start', async () => {
    const sendAll = () =>
      outlast.transaction(tx =>
        outlast.sendMany(tx, [note.with('a'), ordered.with('b'), limited.with('c')]),
      );
    const before = await sendAll();
    expect(await outboxRows()).toBe(2);
    const worker = await startWorker(outlast, { tasks: handlers() });
    try {
      const after = await sendAll();
      for (const [first, second, third] of [before, after]) {
        expect(await first.result()).toBe('ran a');
        expect(await second.result()).toBe('ran b');
        expect(await third.result()).toBe('ran c');
      }
    } finally {
      await worker.stop();
    }
    expect(await outboxRows()).toBe(0);
  });

  it('a worker runs what an older version has left in the outbox, of every kind', async () => {
    // What is sent to a named outbox is a row of it, as everything was with versions before.
    const older = createOutlast({
      database: database.url,
      outboxes: { own: { database: database.url } },
      outbox: 'own',
      adapter: fromPg(database.pool),
    });
    onTestFinished(() => older.close());
    const left = await older.transaction(tx =>
      older.sendMany(tx, [
        note.with('a'),
        ordered.with('b'),
        limited.with('c'),
        note.with('d', { id: 'left-behind', countdown: '1h' }),
      ]),
    );
    expect(await outboxRows()).toBe(4);
    // The same task again, from a newer sender.
    const again = await outlast.transaction(tx =>
      outlast.send(tx, note, 'd', { id: 'left-behind', countdown: '1h' }),
    );
    expect(again.isNew).toBe(false);
    const worker = await startWorker(outlast, { tasks: handlers() });
    try {
      for (const [index, result] of ['ran a', 'ran b', 'ran c'].entries())
        expect(await outlast.find(note, left[index]?.id ?? '').result()).toBe(result);
      expect(await outboxRows()).toBe(1);
      await database.pool.query('update outlast_outbox set available_at = now()');
      await database.pool.query(`notify outlast_outbox`);
      expect(await outlast.find(note, 'left-behind').result()).toBe('ran d');
    } finally {
      await worker.stop();
    }
    expect(await outboxRows()).toBe(0);
  });

  it('a burst is run at once, though senders notify of some tasks only', async () => {
    const idle = { worker: { idleTime: '1h', concurrency: 2 } } as const;
    const slow = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      ...idle,
    });
    onTestFinished(() => slow.close());
    const worker = await startWorker(slow, { tasks: handlers() });
    try {
      const sent = [];
      for (let n = 0; n < 200; n++)
        sent.push(await outlast.transaction(tx => outlast.send(tx, note, String(n))));
      for (const [n, one] of sent.entries()) expect(await one.result()).toBe(`ran ${n}`);
    } finally {
      await worker.stop();
    }
  });

  it('a task is cancelled in the transaction that sends it, and later ones are not', async () => {
    const [cancelled, kept] = await outlast.transaction(async tx => {
      const both = await outlast.sendMany(tx, [note.with('x'), note.with('y')]);
      await both[0].cancel();
      return both;
    });
    expect(await cancelled.state()).toBe('cancelled');
    expect(await kept.state()).toBe('waiting');
    const rolledBack = outlast.transaction(async tx => {
      const one = await outlast.send(tx, note, 'z', { id: 'again' });
      await one.cancel();
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await outlast.find(note, 'again').state()).toBe('unknown');
    await kept.cancel();
  });

  it('runOnce runs what is due', async () => {
    const sent = await outlast.transaction(tx => outlast.send(tx, ordered, 'once'));
    await runOnce(outlast, { tasks: handlers(), maxTime: '30s' });
    expect(await sent.result()).toBe('ran once');
  });

  it('`outlast worker` is enough, and `outlast relay` says so', async () => {
    const project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url });
    try {
      const id = 'own-relay';
      await project.run('send', 'shop.echo', '--kwargs', '{"n":1}', '--id', id);
      const worker = project.start(['worker']);
      await until(async () => {
        const text = `select 1 from outlast_task where id = $1 and state = 'done'`;
        return (await database.pool.query(text, [id])).rowCount;
      });
      await worker.stop();
      expect(await outboxRows()).toBe(0);
      const relay = await project.run('relay', '--drain');
      expect(relay).toMatchObject({ code: 0, stdout: 'moved 0\n' });
      expect(relay.stderr).toContain('no relay is needed');
    } finally {
      await project.dispose();
    }
  });
});
