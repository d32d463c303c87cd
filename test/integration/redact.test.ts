import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task } from '../../src/task/define-task.ts';
import type { EnvelopeOptions } from '../../src/task/envelope.ts';
import type { Redactor } from '../../src/task/redact.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { chain } from '../../src/task/workflow.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
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

const QUERY = `select convert_from(kwargs, 'UTF8') as kwargs, convert_from(redacted_args, 'UTF8') as shown_args,
  convert_from(redacted_kwargs, 'UTF8') as shown_kwargs, convert_from(options, 'UTF8') as options
  from outlast_outbox where task_id = $1`;

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
  const outlast = createOutlast({ database: database.url, adapter, redact, log, on });
  const order = `o${Math.random()}`;
  const [sent] = await outlast.transaction(async tx => {
    await tx.query('insert into orders values ($1)', [order]);
    return await outlast.sendMany(tx, [call]);
  });
  expect((await database.pool.query('select 1 from orders where id = $1', [order])).rowCount).toBe(
    1,
  );
  const text = 'select task_id from outlast_outbox order by id desc limit 1';
  const { rows } = await database.pool.query<{ task_id: string }>(text);
  const found = await database.pool.query<Omit<Row, 'options'> & { options: string }>(QUERY, [
    rows[0]?.task_id ?? sent?.id,
  ]);
  await outlast.close();
  const row = found.rows[0];
  if (row === undefined) throw new Error('no row was written');
  return { row: { ...row, options: JSON.parse(row.options) as EnvelopeOptions }, logged, failures };
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
