import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromMysql2 } from '../../src/adapters/transactions/mysql2.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { type Call, task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import {
  type MigratedDatabase,
  migratedDatabase,
  migratedMariadb,
  until,
} from '../support/database.ts';
import { faultEnv } from '../support/fault-env.ts';

const REPO = fileURLToPath(new URL('../../', import.meta.url));
const TASKS = 120;

let broker: MigratedDatabase;
let folder: string;

beforeAll(async () => {
  broker = await migratedDatabase('broker');
  folder = mkdtempSync(join(tmpdir(), 'outlast-relay-'));
});

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await broker.dispose();
});

/** A separate outbox for each test: they wait for leases, and can do so concurrently. */
interface Outbox {
  readonly url: string;
  send(calls: readonly Call[]): Promise<readonly { readonly id: string }[]>;
  isEmpty(): Promise<boolean>;
  /** The database of the ledger that a relay without a broker moves its rows to. */
  readonly ledger: MigratedDatabase;
  /** Everything that a write to a claimed row changes. */
  versions(): Promise<unknown>;
  dispose(): Promise<void>;
}

async function inPostgres(): Promise<Outbox> {
  const database = await migratedDatabase('outbox');
  const { url, pool } = database;
  return {
    url,
    ledger: database,
    send: async calls => {
      // As a sender whose ledger is elsewhere, or one of an older version: every task is a row.
      const config = { database: broker.url, outboxes: { crm: { database: url } }, outbox: 'crm' };
      const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
      const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
      await outlast.close();
      return sent;
    },
    isEmpty: async () => (await pool.query('select 1 from outlast_outbox limit 1')).rowCount === 0,
    versions: async () => {
      const { rows } = await pool.query<Record<string, unknown>>(
        'select id, xmin::text, ctid::text, claims, claim_token, updated_at from outlast_outbox where claim_token is not null order by id',
      );
      return rows;
    },
    dispose: () => database.dispose(),
  };
}

async function inMariadb(): Promise<Outbox> {
  const database = await migratedMariadb('outbox');
  const { url, pool } = database;
  // MariaDB has no visible row version: a trigger counts the writes.
  await pool.query('create table touched (id bigint not null)');
  for (const event of ['update', 'delete'])
    await pool.query(
      `create trigger note_${event} after ${event} on outlast_outbox for each row insert into touched values (old.id)`,
    );
  return {
    url,
    ledger: broker,
    send: async calls => {
      const config = { database: broker.url, outboxes: { crm: { database: url } }, outbox: 'crm' };
      const outlast = createOutlast({ ...config, adapter: fromMysql2(pool) });
      const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
      await outlast.close();
      return sent;
    },
    isEmpty: async () => {
      const [rows] = await pool.query('select 1 from outlast_outbox limit 1');
      return (rows as unknown[]).length === 0;
    },
    versions: async () => {
      const [rows] = await pool.query(
        `select o.id, claims, claim_token, updated_at, (select count(*) from touched t where t.id = o.id) as writes
         from outlast_outbox o where claim_token is not null order by o.id`,
      );
      return rows;
    },
    dispose: () => database.dispose(),
  };
}

/** A relay whose outbox and broker are different databases, so that it must claim, publish and settle. */
function startRelay(outbox: Pick<Outbox, 'url'>, fault: string): ChildProcess {
  const config = join(REPO, 'test/chaos/project/outlast.config.mjs');
  // The default, and far beyond the time limit of these tests: an earlier return is due to the relay's own lease.
  const stale = ['--stale-timeout-seconds', '300'];
  const args = [
    join(REPO, 'bin/outlast.js'),
    'relay',
    '--outbox',
    'crm',
    '--config',
    config,
    ...stale,
  ];
  return spawn(process.execPath, args, {
    env: {
      ...process.env,
      CHAOS_OUTBOX_URL: outbox.url,
      OUTLAST_DATABASE_URL: broker.url,
      ...faultEnv(fault),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Resolves when it has logged this. */
function says(child: ChildProcess, text: string): Promise<void> {
  let output = '';
  return new Promise(resolve =>
    child.stderr?.on('data', (part: Buffer) => {
      output += part.toString();
      if (output.includes(text)) resolve();
    }),
  );
}

async function exited(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null)
    await new Promise(resolve => child.once('exit', resolve));
  return child.signalCode ?? `code ${child.exitCode}`;
}

async function sendMany(outbox: Outbox, count = TASKS): Promise<readonly string[]> {
  const some = task('relay.some', { input: unchecked<number>() });
  const sent = await outbox.send(Array.from({ length: count }, (_, n) => some.with(n)));
  return sent.map(({ id }) => id);
}

/** Everything is in the ledger, once: a message sent twice is one record. */
async function expectAllArrived(ids: readonly string[], ledger = broker): Promise<void> {
  const { rows } = await ledger.pool.query<{ n: string; waiting: string }>(
    `select count(*) as n, count(*) filter (where state = 'waiting') as waiting from outlast_task where id = any($1)`,
    [ids],
  );
  expect(rows[0]).toEqual({ n: String(ids.length), waiting: String(ids.length) });
}

describe.concurrent.each([
  ['PostgreSQL', inPostgres],
  ['MariaDB', inMariadb],
] as const)('a relay between an outbox in %s and another database', (dialect, makeOutbox) => {
  it.each([
    ['relay.claimed', 1],
    ['relay.before-publish', 20],
    ['relay.written-not-confirmed', 20],
    ['relay.published-not-settled', 3],
    ['relay.mid-settle', 3],
  ] as const satisfies readonly (readonly [FaultPointName, number])[])(
    'killed at %s (%i): its rows are free when its own lease is over, and every one is published',
    async (point, nth) => {
      const outbox = await makeOutbox();
      const ids = await sendMany(outbox);
      const fault = `${point}:kill:${nth}:${join(folder, `${dialect}-${point}`)}`;
      expect(await exited(startRelay(outbox, fault))).toBe('SIGKILL');
      expect(await outbox.isEmpty()).toBe(false);
      const heir = startRelay(outbox, '');
      await until(() => outbox.isEmpty());
      await expectAllArrived(ids);
      const end = exited(heir);
      heir.kill('SIGTERM');
      await end;
      await outbox.dispose();
    },
  );

  it.each([
    'relay.claimed',
    'relay.before-publish',
    'relay.written-not-confirmed',
    'relay.published-not-settled',
    'relay.mid-settle',
  ] as const satisfies readonly FaultPointName[])(
    'stopped past its lease at %s touches no row of another relay when it wakes',
    async point => {
      const outbox = await makeOutbox();
      const ids = await sendMany(outbox, 50);
      const [asleep, claimed] = ['asleep', 'claimed'].map(name =>
        join(folder, `${dialect}-${point}-${name}`),
      ) as [string, string];
      const sleeper = startRelay(outbox, `${point}:stop:1:${asleep}`);
      await until(async () => existsSync(asleep));
      // There is only one batch. The heir claims what the sleeper lost, and stops there.
      const heir = startRelay(outbox, `relay.claimed:stop:1:${claimed}`);
      await until(async () => existsSync(claimed));
      const before = await outbox.versions();
      const claimLost = says(sleeper, 'relay:claim-lost');
      sleeper.kill('SIGCONT');
      await claimLost;
      expect(await outbox.versions()).toEqual(before);
      heir.kill('SIGCONT');
      await until(() => outbox.isEmpty());
      await expectAllArrived(ids);
      const ends = [exited(sleeper), exited(heir)];
      sleeper.kill('SIGTERM');
      heir.kill('SIGTERM');
      await Promise.all(ends);
      await outbox.dispose();
    },
  );
});

describe('a relay in one database', () => {
  const start = (outbox: Outbox, fault: string): ChildProcess =>
    spawn(process.execPath, [join(REPO, 'bin/outlast.js'), 'relay', '--batch-size', '50'], {
      env: { ...process.env, OUTLAST_DATABASE_URL: outbox.url, ...faultEnv(fault) },
      stdio: 'ignore',
    });

  async function end(relay: ChildProcess): Promise<void> {
    const ended = exited(relay);
    relay.kill('SIGTERM');
    expect(await ended).toBe('code 0');
  }

  it('killed right after it moved a batch loses nothing and sends nothing twice', async () => {
    const outbox = await inPostgres();
    const ids = await sendMany(outbox);
    const file = join(folder, 'moved');
    expect(await exited(start(outbox, `relay.moved:kill:1:${file}`))).toBe('SIGKILL');
    const heir = start(outbox, '');
    await until(() => outbox.isEmpty());
    await expectAllArrived(ids, outbox.ledger);
    await end(heir);
    await outbox.dispose();
  });

  it('asleep there delays no other relay, sends nothing again when it wakes, and continues', async () => {
    const outbox = await inPostgres();
    const ids = await sendMany(outbox);
    const file = join(folder, 'moved-asleep');
    const sleeper = start(outbox, `relay.moved:stop:1:${file}`);
    await until(async () => existsSync(file));
    const heir = start(outbox, '');
    await until(() => outbox.isEmpty());
    await expectAllArrived(ids, outbox.ledger);
    await end(heir);
    const { pool } = outbox.ledger;
    // They have ended and were pruned: a copy of one would run again.
    await pool.query('delete from outlast_task');
    sleeper.kill('SIGCONT');
    const more = await sendMany(outbox, 20);
    await until(() => outbox.isEmpty());
    await end(sleeper);
    await expectAllArrived(more, outbox.ledger);
    expect((await pool.query('select 1 from outlast_task')).rowCount).toBe(more.length);
    await outbox.dispose();
  });
});
