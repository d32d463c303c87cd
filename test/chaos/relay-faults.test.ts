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

let broker: MigratedDatabase;
let folder: string;

beforeAll(async () => {
  broker = await migratedDatabase('broker');
  folder = mkdtempSync(join(tmpdir(), 'outlast-relay-'));
}, 120_000);

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await broker.dispose();
});

/** An outbox of its own for each test: they wait for leases, and can do so side by side. */
async function makeOutbox(): Promise<MigratedDatabase> {
  return await migratedDatabase('outbox');
}

/** A relay whose outbox and broker are different databases, so that it must claim, publish and settle. */
function startRelay(outbox: MigratedDatabase, fault: string): ChildProcess {
  const config = join(REPO, 'test/chaos/project/outlast.config.mjs');
  const args = [join(REPO, 'bin/outlast.js'), 'relay', '--outbox', 'crm', '--config', config];
  return spawn(process.execPath, args, {
    env: {
      ...process.env,
      CHAOS_OUTBOX_URL: outbox.url,
      OUTLAST_DATABASE_URL: broker.url,
      OUTLAST_FAULT_POINT: fault,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Resolves when it has logged this. */
function says(child: ChildProcess, text: string): Promise<void> {
  let said = '';
  return new Promise(resolve =>
    child.stderr?.on('data', (part: Buffer) => {
      said += part.toString();
      if (said.includes(text)) resolve();
    }),
  );
}

async function exited(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null)
    await new Promise(resolve => child.once('exit', resolve));
  return child.signalCode ?? `code ${child.exitCode}`;
}

async function sendMany(outbox: MigratedDatabase, count = TASKS): Promise<readonly string[]> {
  const outlast = createOutlast({ database: outbox.url, adapter: fromPg(outbox.pool) });
  const some = task('relay.some', { input: unchecked<number>() });
  const sent = await outlast.transaction(tx =>
    outlast.sendMany(
      tx,
      Array.from({ length: count }, (_, n) => some.with(n)),
    ),
  );
  await outlast.close();
  return sent.map(({ id }) => id);
}

const isEmpty = async (outbox: MigratedDatabase): Promise<boolean> =>
  (await outbox.pool.query('select 1 from outlast_outbox limit 1')).rowCount === 0;

/** Everything is in the ledger, once: a message sent twice is one record. */
async function expectAllArrived(ids: readonly string[]): Promise<void> {
  const { rows } = await broker.pool.query<{ n: string; waiting: string }>(
    `select count(*) as n, count(*) filter (where state = 'waiting') as waiting from outlast_task where id = any($1)`,
    [ids],
  );
  expect(rows[0]).toEqual({ n: String(ids.length), waiting: String(ids.length) });
}

describe.concurrent('a relay between two databases', () => {
  it.each([
    ['relay.claimed', 1],
    ['relay.before-publish', 20],
    ['relay.written-not-confirmed', 20],
    ['relay.published-not-settled', 3],
    ['relay.mid-settle', 3],
  ] as const satisfies readonly (readonly [FaultPointName, number])[])(
    'killed at %s (%i): its rows are free when its own lease is over, and every one arrives',
    async (point, nth) => {
      const outbox = await makeOutbox();
      const ids = await sendMany(outbox);
      const fault = `${point}:kill:${nth}:${join(folder, point)}`;
      expect(await exited(startRelay(outbox, fault))).toBe('SIGKILL');
      expect(await isEmpty(outbox)).toBe(false);
      // Default settings: the stale timeout is five minutes, and the time limit of this test is far below that.
      const heir = startRelay(outbox, '');
      await until(() => isEmpty(outbox));
      await expectAllArrived(ids);
      const end = exited(heir);
      heir.kill('SIGTERM');
      await end;
      await outbox.dispose();
    },
    90_000,
  );

  it("stopped past its lease touches no row that is another relay's when it wakes", async () => {
    const outbox = await makeOutbox();
    const ids = await sendMany(outbox, 50);
    const [asleep, claimed] = [join(folder, 'asleep'), join(folder, 'claimed')];
    const sleeper = startRelay(outbox, `relay.published-not-settled:stop:1:${asleep}`);
    await until(async () => existsSync(asleep));
    // One batch is all there is. The heir claims what the sleeper lost, and stands still with it.
    const heir = startRelay(outbox, `relay.claimed:stop:1:${claimed}`);
    await until(async () => existsSync(claimed));
    const versions = async (): Promise<unknown> =>
      (
        await outbox.pool.query(
          'select id, xmin::text, ctid::text, claims, claim_token, updated_at from outlast_outbox where claim_token is not null order by id',
        )
      ).rows;
    const before = await versions();
    const told = says(sleeper, 'relay:claim-lost');
    sleeper.kill('SIGCONT');
    await told;
    expect(await versions()).toEqual(before);
    heir.kill('SIGCONT');
    await until(() => isEmpty(outbox));
    await expectAllArrived(ids);
    const ends = [exited(sleeper), exited(heir)];
    sleeper.kill('SIGTERM');
    heir.kill('SIGTERM');
    await Promise.all(ends);
    await outbox.dispose();
  }, 90_000);
});

describe('a relay in one database', () => {
  it('killed right after it moved a batch loses nothing and sends nothing twice', async () => {
    const outbox = await makeOutbox();
    const ids = await sendMany(outbox);
    const file = join(folder, 'moved');
    const start = (fault: string): ChildProcess =>
      spawn(process.execPath, [join(REPO, 'bin/outlast.js'), 'relay', '--batch-size', '50'], {
        env: { ...process.env, OUTLAST_DATABASE_URL: outbox.url, OUTLAST_FAULT_POINT: fault },
        stdio: 'ignore',
      });
    expect(await exited(start(`relay.moved:kill:1:${file}`))).toBe('SIGKILL');
    const heir = start('');
    await until(() => isEmpty(outbox));
    const { rows } = await outbox.pool.query<{ n: string }>(
      `select count(*) as n from outlast_task where id = any($1) and state = 'waiting'`,
      [ids],
    );
    expect(rows[0]?.n).toBe(String(TASKS));
    const end = exited(heir);
    heir.kill('SIGTERM');
    expect(await end).toBe('code 0');
    await outbox.dispose();
  }, 60_000);
});
