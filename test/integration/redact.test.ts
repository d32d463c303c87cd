import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task } from '../../src/task/define-task.ts';
import type { EnvelopeOptions } from '../../src/task/envelope.ts';
import type { Redactor } from '../../src/task/redact.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain } from '../../src/task/workflow.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

type Payment = { card: string; cents: number | bigint; deep?: { list: string[] } };
const pay = task('redact.pay', { input: unchecked<Payment>(), result: unchecked<string>() });
const mail = task('redact.mail', { args: unchecked<[string, string]>() });
const SECRET = '4111-1111-1111-1111';
const HIDDEN = '["<hidden: redactor failed>"]';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('redact');
  await database.pool.query('create table orders (id text primary key)');
});

afterAll(() => database.dispose());

interface Row {
  readonly kwargs: string;
  readonly shown_args: string | null;
  readonly shown_kwargs: string | null;
  readonly options: EnvelopeOptions;
}

interface Sent {
  readonly row: Row;
  readonly logged: string;
  readonly failures: readonly unknown[];
}

/** Through the outbox and, where it is beside the ledger, straight into that. */
const QUERIES = {
  outbox: `select convert_from(kwargs, 'UTF8') as kwargs, convert_from(redacted_args, 'UTF8') as shown_args,
  convert_from(redacted_kwargs, 'UTF8') as shown_kwargs, convert_from(options, 'UTF8') as options
  from outlast_outbox order by id desc limit 1`,
  ledger: `select convert_from(body, 'UTF8') as kwargs, convert_from(options, 'UTF8') as options
  from outlast_task order by seq desc limit 1`,
};

/** Sends under a redactor, in a transaction that also writes an order. */
async function send(
  redact: Redactor,
  call: Parameters<ReturnType<typeof createOutlast>['sendMany']>[1][number],
): Promise<Sent> {
  let logged = '';
  const note = (...parts: unknown[]): void => void (logged += JSON.stringify(parts));
  const log = { debug: note, info: note, warn: note, error: note, child: () => log };
  const failures: unknown[] = [];
  const on = { 'redaction:failed': (event: unknown) => void failures.push(event) };
  const adapter = fromPg(database.pool);
  const through = async (outbox?: string): Promise<void> => {
    const outboxes = { own: { database: database.url } };
    const config = { database: database.url, outboxes, ...(outbox && { outbox }) };
    const outlast = createOutlast({ ...config, adapter, redact, log, on });
    await sendWithOrder(outlast, call);
    await outlast.close();
  };
  await through();
  const straight = (await database.pool.query<{ kwargs: string; options: string }>(QUERIES.ledger))
    .rows[0];
  failures.length = 0;
  await through('own');
  const row = (
    await database.pool.query<Omit<Row, 'options'> & { options: string }>(QUERIES.outbox)
  ).rows[0];
  if (row === undefined || straight === undefined) throw new Error('nothing was written');
  expect(straight.kwargs).toContain(row.kwargs);
  // Ids of follow-ups derive from that of the task.
  const withoutIds = (options: string): string =>
    options.replaceAll(/task_id\\":\\"[0-9a-f-]+/g, 'id');
  expect(withoutIds(straight.options)).toBe(withoutIds(row.options));
  return { row: { ...row, options: JSON.parse(row.options) as EnvelopeOptions }, logged, failures };
}

async function sendWithOrder(
  outlast: Outlast<PoolClient>,
  call: Parameters<ReturnType<typeof createOutlast>['sendMany']>[1][number],
): Promise<void> {
  const order = `o${Math.random()}`;
  await outlast.transaction(async tx => {
    await tx.query('insert into orders values ($1)', [order]);
    await outlast.sendMany(tx, [call]);
  });
  expect((await database.pool.query('select 1 from orders where id = $1', [order])).rowCount).toBe(
    1,
  );
}

const payment = (): Payment => ({ card: SECRET, cents: 2n ** 70n, deep: { list: ['a'] } });

describe('a redactor', () => {
  it('makes redacted copies for operators; message and input stay as they are', async () => {
    const input = payment();
    const { row, failures } = await send(({ name, args, kwargs }) => {
      expect([name, args, kwargs['cents']]).toEqual(['redact.pay', [], 2n ** 70n]);
      (kwargs['deep'] as { list: string[] }).list.push('changed by the redactor');
      return { args, kwargs: { ...kwargs, card: '***' } };
    }, pay.with(input));
    const shown =
      '{"card":"***","cents":1180591620717411303424,"deep":{"list":["a","changed by the redactor"]}}';
    expect([row.shown_args, row.shown_kwargs]).toEqual(['[]', shown]);
    expect(row.options.redacted).toMatchObject({ args: '[]', kwargs: shown });
    expect(row.kwargs).toBe(
      `{"card":"${SECRET}","cents":1180591620717411303424,"deep":{"list":["a"]}}`,
    );
    expect(input).toEqual(payment());
    expect(failures).toEqual([]);
  });

  it('that changes nothing makes no copies', async () => {
    const { row } = await send(({ args, kwargs }) => ({ args, kwargs }), pay.with(payment()));
    expect([row.shown_args, row.shown_kwargs, row.options]).toEqual([null, null, {}]);
  });

  it('is called for every follow-up step, too', async () => {
    const redact: Redactor = ({ name, args, kwargs }) =>
      name === 'redact.mail' ? { args: args.map(() => '***'), kwargs } : { args, kwargs };
    const { row } = await send(
      redact,
      chain(
        pay.with({ card: 'x', cents: 1 }, { linkError: mail.with({ args: ['to', SECRET] }) }),
        mail.after({ args: [SECRET] }, { link: mail.with({ args: ['to', SECRET] }) }),
      ),
    );
    const { redacted } = row.options;
    expect(redacted?.embed).toContain('"***"');
    expect(JSON.stringify(redacted)).not.toContain(SECRET);
    // Everything but the arguments is there: operators see what will follow.
    const shown = JSON.parse(redacted?.embed ?? 'null') as { chain: { task: string }[] };
    expect(shown.chain.map(({ task: name }) => name)).toEqual(['redact.mail']);
  });

  const failing: readonly (readonly [string, unknown])[] = [
    [
      'throws',
      () => {
        throw new RangeError(`cannot read ${SECRET}`);
      },
    ],
    [
      'throws something that is no error',
      () => {
        throw SECRET as unknown as Error;
      },
    ],
    ['is async', async () => ({ args: [], kwargs: {} })],
    [
      'is async and rejects',
      async () => {
        throw new Error(SECRET);
      },
    ],
    ['returns nothing', () => undefined],
    ['returns half of it', ({ args }: { args: unknown }) => ({ args })],
    ['returns what is no JSON', () => ({ args: [() => SECRET], kwargs: {} })],
    ['returns an object for args', () => ({ args: { 0: SECRET }, kwargs: {} })],
    ['returns a list for kwargs', () => ({ args: [], kwargs: [SECRET] })],
    [
      'returns something that throws when it is read',
      () => ({
        get args() {
          throw new Error(SECRET);
        },
        kwargs: {},
      }),
    ],
  ];
  it.each(failing)('that %s hides all arguments and does not harm the send', async (_, redact) => {
    const { row, logged, failures } = await send(redact as Redactor, pay.with(payment()));
    expect([row.shown_args, row.shown_kwargs]).toEqual([HIDDEN, '{}']);
    expect(JSON.stringify(row.options)).not.toContain(SECRET);
    expect(row.kwargs).toContain(SECRET);
    expect(logged).toContain('redaction:failed');
    expect(logged).not.toContain(SECRET);
    expect(failures).toEqual([{ name: 'redact.pay', error: expect.any(String) as string }]);
    expect(JSON.stringify(failures)).not.toContain(SECRET);
  });
});
