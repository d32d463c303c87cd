import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
import { createOutlast, startRelay, task } from '../../dist/index.js';
import type { DoctorReport } from '../../src/admin/doctor.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';

interface HealthFigures {
  readonly oldest_pending_seconds: number | null;
  readonly queue_depth: number;
  readonly deferred: number;
}

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('figures');
});

afterAll(() => database.dispose());

beforeEach(async () => {
  await database.pool.query('truncate outlast_outbox, outlast_task, outlast_dead_letter');
});

/** Makes outbox and tasks as old as if they had been written that much earlier. */
async function age(seconds: number): Promise<void> {
  await database.pool.query(
    `update outlast_outbox set created_at = created_at - $1 * interval '1 s', eta = eta - $1 * interval '1 s',
       available_at = available_at - $1 * interval '1 s'`,
    [seconds],
  );
  await database.pool.query(
    `update outlast_task set created_at = created_at - $1 * interval '1 s', eta = eta - $1 * interval '1 s',
       due = due - $1 * interval '1 s'`,
    [seconds],
  );
}

describe('a broker that is away for 25 s, with one row', () => {
  it('makes the oldest row 25 s old and a doctor complain, though the row was put off again and again', async () => {
    const broker = `amqp://127.0.0.1:${await freePort()}`;
    const outlast = createOutlast({
      database: database.url,
      broker,
      adapter: fromPg(database.pool),
    });
    onTestFinished(() => outlast.close());
    const project = new CliProject(
      {},
      { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: broker },
    );
    onTestFinished(() => project.dispose());
    const healthPort = await freePort();
    await outlast.transaction(tx => outlast.send(tx, task(unique('one'))));
    const relay = await startRelay(outlast, {
      healthPort,
      queueSnapshotRefreshSeconds: 0.1,
      sendTimeout: '1s',
      brokerOutageCooldown: '100ms',
    });
    onTestFinished(() => relay.stop());
    const putOff = 'select 1 from outlast_outbox where claims > 2';
    await until(async () => (await database.pool.query(putOff)).rowCount === 1);
    await age(25);
    const stats = await createAdmin(outlast).stats();
    expect(stats.oldestPendingSeconds).toBeGreaterThanOrEqual(25);
    expect(stats.oldestPendingSeconds).toBeLessThan(1_000);
    const health = await until(async () => {
      const answer = await fetch(`http://127.0.0.1:${healthPort}/health`);
      const figures = (await answer.json()) as HealthFigures;
      return Number(figures.oldest_pending_seconds) >= 25 && figures;
    });
    // It is due, claimed or put off, as the relay tries again meanwhile: one row in any case.
    expect([stats.queueDepth + stats.deferred, health.queue_depth + health.deferred]).toEqual([
      1, 1,
    ]);
    const { stdout } = await project.run('doctor', '--json', '--max-pending-age', '10s');
    const { checks } = json<DoctorReport>(stdout);
    expect(checks.find(({ name }) => name === 'backlog')).toMatchObject({ status: 'problem' });
  });
});

describe('without a broker', () => {
  it('counts tasks that wait for a worker as the backlog, from the time they were sent', async () => {
    const outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
    onTestFinished(() => outlast.close());
    const one = task(unique('one'));
    await outlast.transaction(async tx => {
      await outlast.send(tx, one);
      await outlast.send(tx, one, undefined, { orderingKey: 'waits in the outbox' });
      await outlast.send(tx, one, undefined, { countdown: '1h' });
    });
    await age(25);
    const stats = await createAdmin(outlast).stats();
    expect(stats).toMatchObject({ queueDepth: 2, scheduled: 1, backoff: 0, deferred: 0 });
    expect(stats.oldestPendingSeconds).toBeGreaterThanOrEqual(25);
  });
});

describe('dead letters', () => {
  it('are counted alike by stats and by the health of a relay, those of workers too', async () => {
    const outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
    onTestFinished(() => outlast.close());
    await database.pool.query(
      `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending, ended_at)
       values ('dead', 'a', 'q', 0, 1, '', '{}', 'x', 'dead', 'dead', now())`,
    );
    const healthPort = await freePort();
    const relay = await startRelay(outlast, { healthPort });
    onTestFinished(() => relay.stop());
    const dlq = { outbox: 0, worker: 1 };
    expect(await createAdmin(outlast).stats()).toMatchObject({ dlqCount: 1, dlq });
    const health = await until(async () => {
      const answer = await fetch(`http://127.0.0.1:${healthPort}/health`);
      const figures = (await answer.json()) as { readonly dlq_count: number | null };
      return figures.dlq_count !== null && figures;
    });
    expect(health).toMatchObject({ dlq_count: 1, dlq });
  });
});
