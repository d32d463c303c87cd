import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, task, type Outlast } from '../../dist/index.js';
import { keyHash } from '../../src/worker/effects/door.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { gate, migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const TASKS = `
import { createOutlast, task, unchecked } from 'outlast';
import config from './outlast.config.js';
const outlast = createOutlast(config);
export const pay = outlast.handler(
  task('shop.pay', { input: unchecked(), params: ['order', 'cents'], idempotent: true }), () => undefined);
export const refund = outlast.handler(
  task('shop.refund', { input: unchecked(), idempotent: { key: input => input.order } }), () => undefined);
export const plain = outlast.handler(task('shop.plain', { input: unchecked() }), () => undefined);
`;

let database: MigratedDatabase;
let project: CliProject;
let outlast: Outlast;

beforeAll(async () => {
  database = await migratedDatabase('cli_idempotency');
  outlast = createOutlast({ database: database.url });
  project = new CliProject(
    { 'tasks.js': TASKS, 'outlast.config.js': "export default { tasks: ['./tasks.js'] };" },
    { OUTLAST_DATABASE_URL: database.url },
  );
});

afterAll(async () => {
  await project.dispose();
  await outlast.close();
  await database.dispose();
});

const verb = (...args: string[]) => project.run('idempotency', ...args, '--json');
const code = (stderr: string): string => json<JsonError>(stderr).error.code;

/** A key that this task holds, for longer than a begun task can be unknown. */
async function held(key: string, id: string): Promise<void> {
  await database.pool.query(
    `insert into outlast_idempotency (key, state, task_id, epoch, digest, held_at, waiters)
       values ($1, 'held', $2, 3, 'd', now() - interval '1 minute', '{"w1": 2}')`,
    [key, id],
  );
}

describe('idempotency', () => {
  it('shows a result and deletes it, so that the next task runs', async () => {
    const import7 = async (rows: number) =>
      (await outlast.idempotencyLock('import-7', '1h', () => ({ rows }))).value;
    expect(await import7(3)).toEqual({ rows: 3 });
    expect(await import7(4)).toEqual({ rows: 3 });
    const shown = await verb('show', '#import-7');
    expect(shown.code).toBe(0);
    expect(json(shown.stdout)).toMatchObject({
      key: '#import-7',
      state: 'done',
      result: { rows: 3 },
      is_holder_alive: false,
      left_ms: expect.any(Number) as number,
    });
    expect((await project.run('idempotency', 'show', '#import-7')).stdout).toContain('{"rows":3}');
    expect(await verb('reset', '#import-7')).toMatchObject({ code: 0 });
    const gone = await verb('show', '#import-7');
    expect([gone.code, code(gone.stderr)]).toEqual([3, 'ERR_NOT_FOUND']);
    expect(await import7(5)).toEqual({ rows: 5 });
  });

  it('keeps a key whose holder is alive, unless forced', async () => {
    const { id } = await outlast.push(task('shop.other'));
    await held('shop.pay#alive', id);
    const shown = json((await verb('show', 'shop.pay#alive')).stdout);
    const expected = { state: 'held', task_id: id, epoch: 3, waiters: ['w1'], left_ms: null };
    expect(shown).toMatchObject({ ...expected, is_holder_alive: true });
    const refused = await verb('reset', 'shop.pay#alive');
    expect([refused.code, code(refused.stderr)]).toEqual([4, 'ERR_CONFLICT']);
    expect((await verb('reset', 'shop.pay#alive', '--force')).code).toBe(0);
  });

  it('frees a key whose holder has ended', async () => {
    await held('shop.pay#orphan', 'forgotten');
    const text = await project.run('idempotency', 'show', 'shop.pay#orphan');
    expect(text.stdout).toContain('held, by a task that has ended');
    expect((await verb('reset', 'shop.pay#orphan')).code).toBe(0);
  });

  it('keeps the key of a running idempotencyLock until its lease ends', async () => {
    const [started, end] = [gate(), gate()];
    const running = outlast.idempotencyLock('import-8', '1h', async () => {
      started.open();
      await end.opened;
    });
    await started.opened;
    expect((await verb('reset', '#import-8')).code).toBe(4);
    end.open();
    await running;
  });

  it('derives the key of a call as a worker does', async () => {
    const show = async (...args: string[]) => {
      const { stderr, code: exit } = await verb('show', ...args);
      return { exit, message: json<JsonError>(stderr).error.message };
    };
    const refund = await show('--task', 'shop.refund', '--input', '{"order":"17"}');
    expect(refund).toEqual({ exit: 3, message: 'no task has the key shop.refund#17' });
    const pay = await show('--task', 'shop.pay', '--input', '{"cents":5,"order":"17"}');
    expect(pay.message).toMatch(/^no task has the key shop\.pay#[0-9a-f]{64}$/);
    expect(await show('--task', 'shop.pay', '--input', '{"order":"17","cents":5}')).toEqual(pay);
    expect((await show('--task', 'shop.plain', '--input', '{}')).exit).toBe(2);
    expect((await show('key', '--task', 'shop.pay')).exit).toBe(2);
  });

  it('deletes effects in every database that may have them, even under a key that no store knows any more', async () => {
    const [orders, keys] = [
      await migratedDatabase('cli_idempotency_orders'),
      ['here', 'elsewhere'],
    ];
    onTestFinished(() => orders.dispose());
    const config = `export default { outboxes: { orders: { database: '${orders.url}' } } };`;
    const elsewhere = new CliProject(
      { 'outlast.config.js': config },
      { OUTLAST_DATABASE_URL: database.url },
    );
    onTestFinished(() => elsewhere.dispose());
    const text = `insert into outlast_effect_key (key_hash, origin, ends_at) values ($1, 'task', now() + interval '1 hour')`;
    const left = async (): Promise<number[]> =>
      await Promise.all(
        [database, orders].map(async ({ pool }, place) => {
          const hash = keyHash(`shop.pay#${keys[place]}`);
          const found = 'select 1 from outlast_effect_key where key_hash = $1';
          return (await pool.query(found, [hash])).rowCount ?? 0;
        }),
      );
    await database.pool.query(text, [keyHash('shop.pay#here')]);
    await orders.pool.query(text, [keyHash('shop.pay#elsewhere')]);
    expect(await left()).toEqual([1, 1]);
    for (const key of keys)
      expect((await elsewhere.run('idempotency', 'reset', `shop.pay#${key}`)).code).toBe(0);
    expect(await left()).toEqual([0, 0]);
    const gone = await elsewhere.run('idempotency', 'reset', 'shop.pay#elsewhere', '--json');
    expect([gone.code, code(gone.stderr)]).toEqual([3, 'ERR_NOT_FOUND']);
  });
});
