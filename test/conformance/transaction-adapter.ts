import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MysqlFences } from '../../src/adapters/mysql/mysql-fences.ts';
import { PostgresFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import { noFaults } from '../../src/runtime/runtime.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { LedgerDriver } from './ledger-driver.ts';

/** One library on one server, as a test sees it. */
export interface OpenLibrary<Tx> {
  readonly adapter: TransactionAdapter<Tx>;
  /** A transaction as the documents of the library begin one. */
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** An order, written by the library's own means. */
  insert(tx: Tx, id: string): Promise<unknown>;
  /** A statement of the caller's own. */
  run(tx: Tx, text: string): Promise<unknown>;
  /** What is no transaction, by its name: a pool, a client, a manager. */
  readonly wrongHandles: Readonly<Record<string, unknown>>;
  /** A ROLLBACK that is not awaited hangs the library for good. */
  readonly hangsAtRollback?: true;
  close(): Promise<unknown>;
}

/** The database of a test: its URL, and a way to look into it that is not the library's. */
export interface LookedAt {
  readonly url: string;
  /** `sent`: the tasks that are there, wherever a send writes them. */
  count(what: 'orders' | 'sent'): Promise<number>;
  /** How many tasks there are whose bytes are not those that were sent. */
  damaged(): Promise<number>;
  clear(): Promise<void>;
  dispose(): Promise<void>;
}

export const ASPECTS = ['insert', 'rollback', 'commit', 'wrong handle', 'effect-once'] as const;
export type Aspect = (typeof ASPECTS)[number];

const order = task('adapter.order', { input: unchecked<{ id: string; text: string }>() });
/** Every script, a NUL, quotes, backslashes, and the placeholders of both dialects. */
const TEXT = `žluťoučký 🐎 \u0000 日本 ' " \\ \\\\ ? $1 $$ :name :: %s \n`;
/** Two turns of the event loop more for each: as many as a send takes. */
const ROUNDS = 24;
const REFUSED = { code: 'ERR_NOT_IN_TRANSACTION' };

/** What every adapter does on every server; `shown` is called with each aspect that a test has shown. */
export function transactionAdapterSuite<Tx>(
  server: 'PostgreSQL' | 'MariaDB',
  look: () => Promise<LookedAt>,
  open: (url: string) => Promise<OpenLibrary<Tx>>,
  shown: (aspect: Aspect) => void,
): void {
  let database: LookedAt;
  let library: OpenLibrary<Tx>;
  let outlast: Outlast<Tx>;

  beforeAll(async () => {
    database = await look();
    library = await open(database.url);
    const config = {
      database: 'postgres://nobody@127.0.0.1:1/none',
      outboxes: { crm: { database: database.url } },
      outbox: 'crm',
    };
    outlast = createOutlast({
      ...(server === 'PostgreSQL' ? { database: database.url } : config),
      adapter: library.adapter,
    });
  });

  beforeEach(() => database.clear());

  afterAll(async () => {
    await outlast.close();
    await library.close();
  });

  const send = async (tx: Tx, id: string): Promise<void> =>
    void (await outlast.send(tx, order, { id, text: TEXT }));
  const counts = async (): Promise<readonly number[]> => [
    await database.count('orders'),
    await database.count('sent'),
  ];
  const failing = async (fn: (tx: Tx) => Promise<unknown>): Promise<unknown> =>
    await library
      .transaction(async tx => {
        await fn(tx);
        throw new Error('on purpose');
      })
      .catch((error: unknown) => error);

  it('writes one task with one order in the transaction of the library', async () => {
    await library.transaction(async tx => {
      await library.insert(tx, 'one');
      await send(tx, 'one');
      expect(await counts()).toEqual([0, 0]);
      shown('insert');
    });
    expect(await counts()).toEqual([1, 1]);
    expect(await database.damaged()).toBe(0);
    shown('commit');
  });

  it('writes neither when the transaction rolls back', async () => {
    const error = await failing(async tx => {
      await library.insert(tx, 'two');
      await send(tx, 'two');
      await outlast.sendMany(tx, [
        order.with({ id: '3', text: TEXT }),
        order.with({ id: '4', text: '' }),
      ]);
      await outlast.send(
        tx,
        order,
        { id: '5', text: TEXT },
        { idempotencyKey: `k-${randomUUID()}`, orderingKey: 'o' },
      );
    });
    expect(error).toMatchObject({ message: 'on purpose' });
    expect(await counts()).toEqual([0, 0]);
    shown('rollback');
  });

  it('finds the first task of an idempotency key, and writes a batch in order', async () => {
    const [first, again, many] = await library.transaction(async tx => {
      const options = { idempotencyKey: `key ? $1 ' ž ${randomUUID()}`, orderingKey: 'o' };
      const input = { id: '1', text: TEXT };
      return [
        await outlast.send(tx, order, input, options),
        await outlast.send(tx, order, input, options),
        await outlast.sendMany(
          tx,
          Array.from({ length: 30 }, (_, n) => order.with({ id: `${n}`, text: TEXT })),
        ),
      ] as const;
    });
    expect([first.isNew, again.isNew, again.id === first.id, many.length]).toEqual([
      true,
      false,
      true,
      30,
    ]);
    expect(await counts()).toEqual([0, 31]);
    expect(await database.damaged()).toBe(0);
  });

  it('writes tasks that are sent side by side', async () => {
    await library.transaction(tx => Promise.all(['1', '2', '3'].map(id => send(tx, id))));
    expect(await counts()).toEqual([0, 3]);
  });

  it('refuses a handle that is no transaction, and one whose transaction is over', async () => {
    for (const [name, handle] of Object.entries(library.wrongHandles))
      await expect(send(handle as Tx, name), name).rejects.toMatchObject(REFUSED);
    const ended: Tx[] = [];
    await library.transaction(async tx => void ended.push(tx));
    await failing(async tx => void ended.push(tx));
    for (const tx of ended) await expect(send(tx, 'late')).rejects.toMatchObject(REFUSED);
    expect(await counts()).toEqual([0, 0]);
    shown('wrong handle');
  });

  it('refuses a send after ROLLBACK was run as a statement', async () => {
    await library
      .transaction(async tx => {
        await library.run(tx, 'rollback');
        await expect(send(tx, 'late')).rejects.toMatchObject(REFUSED);
      })
      // Some libraries notice it at the end.
      .catch((error: unknown) => expect(String(error)).not.toContain('AssertionError'));
    expect(await counts()).toEqual([0, 0]);
  });

  it('leaves no task and no key behind when sends are not awaited and the transaction rolls back', async () => {
    const sending: Promise<unknown>[] = [];
    const keyOf = (round: number): string => `${prefix}-${round}`;
    const prefix = randomUUID();
    const forget = (tx: Tx, round: number): void => {
      const input = { id: 'forgotten', text: TEXT };
      const keyed = { idempotencyKey: keyOf(round), orderingKey: 'o' };
      const sends = [
        () => outlast.send(tx, order, input),
        () => outlast.send(tx, order, input, keyed),
        () => outlast.sendMany(tx, [order.with(input), order.with(input)]),
        () => outlast.send(tx, order, input, { id: keyOf(round) }),
      ];
      for (let at = 0; at < 1 + (round % 2); at += 1)
        sending.push(
          (sends[(round + at) % sends.length] as () => Promise<unknown>)().catch(() => undefined),
        );
    };
    // Each round ends its transaction after a few more turns than the one before, so that the end falls before, between and
    // after all statements of a send; the other loop commits on the connections that the first one gives back.
    for (let round = 0; round < ROUNDS; round += 1) {
      await Promise.all([
        failing(async tx => {
          forget(tx, round);
          for (let turn = 0; turn < 2 * round; turn += 1) await nextTurn();
          if (round % 3 === 2 && !library.hangsAtRollback)
            void library.run(tx, 'rollback').catch(() => undefined);
        }),
        library.transaction(async tx => await library.run(tx, 'select 1')),
      ]);
    }
    await Promise.all(sending);
    expect(await counts()).toEqual([0, 0]);
    // A key whose task was never sent is free.
    await library.transaction(async tx => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const options = { idempotencyKey: keyOf(round) };
        const sent = await outlast.send(tx, order, { id: 'again', text: '' }, options);
        expect(sent.isNew, options.idempotencyKey).toBe(true);
      }
    });
  });

  it('has an effect once through the door, in transactions of the library', async () => {
    const { adapter } = library;
    const fences = server === 'PostgreSQL' ? new PostgresFences(adapter) : new MysqlFences(adapter);
    const driver = new LedgerDriver(await makeLedger());
    const door = new EffectOnceDoor({ fences, ledger: driver.ledger, faultPoint: noFaults });
    const { task: run } = await driver.running();
    let runs = 0;
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      runs += 1;
      await library.insert(tx, `effect-${runs}`);
      await send(tx, 'effect');
      return Uint8Array.from([7]);
    };
    const failed = door.pass(run, 'main', async tx => {
      await effect(tx);
      throw new Error('on purpose');
    });
    await expect(failed).rejects.toThrow('on purpose');
    expect(await counts()).toEqual([0, 0]);
    expect([...((await door.pass(run, 'main', effect)) ?? [])]).toEqual([7]);
    expect([...((await door.pass(run, 'main', effect)) ?? [])]).toEqual([7]);
    expect([runs, ...(await counts())]).toEqual([2, 1, 1]);
    await driver.release(run);
    await expect(door.pass(run, 'late', effect)).rejects.toMatchObject({ code: 'ERR_FENCE_STALE' });
    // The session is as it was before: what the application writes next is committed.
    await library.transaction(async tx => void (await library.insert(tx, 'after')));
    expect(await counts()).toEqual([2, 1]);
    shown('effect-once');
  });

  describe.runIf(server === 'PostgreSQL')('on PostgreSQL', () => {
    it('reports a transaction as rolled back when the caller swallowed the error of a statement', async () => {
      const swallowing = outlast.transaction(async tx => {
        await library.insert(tx, 'lost');
        await library.run(tx, 'select * from nowhere').catch(() => undefined);
      });
      await expect(swallowing).rejects.toThrow();
      expect(await counts()).toEqual([0, 0]);
    });
  });
}
