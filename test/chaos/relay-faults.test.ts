import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { FaultPointName } from '../../src/runtime/fault-point.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/wiring/create-outlast.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

const REPO = fileURLToPath(new URL('../../', import.meta.url));
const TASKS = 120;

let outbox: MigratedDatabase;
let broker: MigratedDatabase;
let folder: string;

beforeAll(async () => {
  [outbox, broker] = [await migratedDatabase('outbox'), await migratedDatabase('broker')];
  folder = mkdtempSync(join(tmpdir(), 'outlast-relay-'));
}, 120_000);

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await outbox.dispose();
  await broker.dispose();
});

/** A relay whose outbox and broker are different databases, so that it must claim, publish and settle. */
function startRelay(fault: string): ChildProcess {
  const config = join(REPO, 'test/chaos/project/outlast.config.mjs');
  const args = [join(REPO, 'bin/outlast.js'), 'relay', '--outbox', 'crm', '--config', config];
  return spawn(process.execPath, args, {
    env: {
      ...process.env,
      CHAOS_OUTBOX_URL: outbox.url,
      OUTLAST_DATABASE_URL: broker.url,
      OUTLAST_FAULT_POINT: fault,
    },
    stdio: 'ignore',
  });
}

async function exited(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null)
    await new Promise(resolve => child.once('exit', resolve));
  return child.signalCode ?? `code ${child.exitCode}`;
}

async function sendMany(): Promise<readonly string[]> {
  const outlast = createOutlast({ database: outbox.url, adapter: fromPg(outbox.pool) });
  const some = task('relay.some', { input: unchecked<number>() });
  const sent = await outlast.transaction(tx =>
    outlast.sendMany(
      tx,
      Array.from({ length: TASKS }, (_, n) => some.with(n)),
    ),
  );
  await outlast.close();
  return sent.map(({ id }) => id);
}

const isEmpty = async (): Promise<boolean> =>
  (await outbox.pool.query('select 1 from outlast_outbox limit 1')).rowCount === 0;

/** Everything is in the ledger, once: a message sent twice is one record. */
async function expectAllArrived(ids: readonly string[]): Promise<void> {
  const { rows } = await broker.pool.query<{ n: string; waiting: string }>(
    `select count(*) as n, count(*) filter (where state = 'waiting') as waiting from outlast_task where id = any($1)`,
    [ids],
  );
  expect(rows[0]).toEqual({ n: String(TASKS), waiting: String(TASKS) });
}

describe('a relay between two databases', () => {
  it.each([
    'relay.claimed',
    'relay.before-publish',
    'relay.written-not-confirmed',
    'relay.published-not-settled',
    'relay.mid-settle',
  ] as const satisfies readonly FaultPointName[])(
    'killed at %s: its rows are free when its own lease is over, and every one arrives',
    async point => {
      const ids = await sendMany();
      const file = join(folder, point);
      const dead = startRelay(`${point}:kill:2:${file}`);
      const heir = startRelay('');
      await until(async () => (await isEmpty()) || existsSync(file));
      // The heir may have been quicker with all of it: then there was nothing to die over.
      await until(isEmpty);
      await expectAllArrived(ids);
      const ends = [exited(dead), exited(heir)];
      heir.kill('SIGTERM');
      dead.kill('SIGTERM');
      await Promise.all(ends);
    },
    90_000,
  );

  it('stopped past its claim settles nothing that is not its own any more', async () => {
    const ids = await sendMany();
    const file = join(folder, 'stopped');
    const sleeper = startRelay(`relay.published-not-settled:stop:1:${file}`);
    await until(async () => existsSync(file));
    const heir = startRelay('');
    await until(isEmpty);
    // A newcomer under one of the numbers of old must survive the sleeper's late settling.
    const later = await sendMany();
    const end = exited(sleeper);
    sleeper.kill('SIGCONT');
    await until(isEmpty);
    await expectAllArrived(ids);
    await expectAllArrived(later);
    const ends = [end, exited(heir)];
    sleeper.kill('SIGTERM');
    heir.kill('SIGTERM');
    await Promise.all(ends);
  }, 90_000);
});

describe('a relay in one database', () => {
  it('killed right after it moved a batch loses nothing and sends nothing twice', async () => {
    const ids = await sendMany();
    const file = join(folder, 'moved');
    const start = (fault: string): ChildProcess =>
      spawn(process.execPath, [join(REPO, 'bin/outlast.js'), 'relay', '--batch-size', '50'], {
        env: { ...process.env, OUTLAST_DATABASE_URL: outbox.url, OUTLAST_FAULT_POINT: fault },
        stdio: 'ignore',
      });
    expect(await exited(start(`relay.moved:kill:1:${file}`))).toBe('SIGKILL');
    const heir = start('');
    await until(isEmpty);
    const { rows } = await outbox.pool.query<{ n: string }>(
      `select count(*) as n from outlast_task where id = any($1) and state = 'waiting'`,
      [ids],
    );
    expect(rows[0]?.n).toBe(String(TASKS));
    const end = exited(heir);
    heir.kill('SIGTERM');
    expect(await end).toBe('code 0');
  }, 60_000);
});
