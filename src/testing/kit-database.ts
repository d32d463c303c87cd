import type { InstancePorts } from '../app/create-outlast.ts';
import type { OutboxDatabase } from '../adapters/sql/dialect.ts';
import { isEmbedded } from '../config/database-url.ts';
import type { Context } from '../context/context.ts';
import type { Stores } from '../context/stores.ts';
import { outlastError } from '../errors/error.ts';
import {
  envelopeOf,
  type NewTask,
  type OutboxWriter,
  rowVersionOf,
  type WriteAnswer,
} from '../outbox/outbox-writer.ts';
import { systemRandom } from '../runtime/runtime.ts';
import { keyHash, type DoorParts, type DoorRun, type EffectDoor } from '../worker/effects/door.ts';
import type { KitProcess } from './kit-process.ts';
import type { Fault, KitRows, KitStores } from './kit-stores.ts';

const PREFIX = 'testkit-';
/** No test lasts that long: what is older was left by a kit that was killed. */
const ABANDONED_MS = 3_600_000;
/** What fits into a key of every database. */
const LONGEST_KEY = 255;

/** A task that was written, and whose commit was not seen. */
interface Written {
  readonly task: NewTask;
  /** Its transaction is known to be open. */
  readonly isOpen: () => boolean;
  /** Its transaction is known to be over. */
  readonly isOver: () => boolean;
  /** `looked`: it was not there at a time when its transaction was not known to be open. */
  seen: 'no' | 'looked' | 'found';
}

/**
 * The outbox of a kit in the user's own database. Its rows have ids of this kit and a format that no relay takes, so that
 * neither real processes nor another kit get them; it finds its own by their ids.
 */
export class KitDatabase implements KitRows {
  readonly #context: Context;
  readonly #stores: KitStores;
  readonly #scope: string = `${PREFIX}${systemRandom.token().slice(0, 12)}:`;
  /** By the id in the table, in the order of the sends. */
  readonly #written = new Map<string, Written>();
  /** Ids as the user knows them. */
  readonly #ids = new Map<string, string>();
  #process: KitProcess | null = null;
  #isOpen = false;
  #transactions = 0;
  #asked = 0;

  /** @param context is closed with the kit */
  constructor(context: Context, stores: KitStores) {
    this.#context = context;
    this.#stores = stores;
  }

  get context(): Context {
    return this.#context;
  }

  get isAsked(): boolean {
    return this.#asked > 0;
  }

  /** Refuses a database that is not prepared; removes what killed kits have left there. */
  async open(): Promise<void> {
    const database = await this.#context.outboxDatabase();
    if (database.forgetTests === undefined) throw unfit();
    await database.forgetTests(PREFIX, ABANDONED_MS);
    this.#isOpen = true;
  }

  /** Removes what it has written. What is committed after this goes with the next kit that finds it abandoned. */
  async close(): Promise<void> {
    try {
      if (this.#isOpen) await (await this.#context.outboxDatabase()).forgetTests?.(this.#scope, 0);
    } finally {
      await this.#context.close();
    }
  }

  serve(process: KitProcess): void {
    this.#process = process;
  }

  async idle(longestMs: number): Promise<void> {
    const endsAt = performance.now() + longestMs;
    while (this.isAsked && performance.now() < endsAt)
      await new Promise(resolve => setTimeout(resolve, 1));
  }

  async look(): Promise<void> {
    this.#refuseInside();
    await this.#look();
  }

  async #look(): Promise<void> {
    await this.#each(async ({ reads }, row, { task, seen }) => {
      if (seen === 'found') return true;
      const found = await reads.find(row);
      if (found !== null) this.#stores.note(envelopeOf(task));
      return found !== null;
    });
  }

  async take(): Promise<void> {
    this.#refuseInside();
    await this.#each(async ({ outbox }, row, { task }) => {
      const { orderingKey, parksKey, redacted } = task;
      const rowVersion = rowVersionOf(task);
      const isThere = await outbox.withdraw(row, async envelope =>
        this.#stores.receive(
          { ...envelope, id: task.id },
          { orderingKey, parksKey, redacted, rowVersion },
        ),
      );
      if (isThere) this.#written.delete(row);
      return isThere;
    });
  }

  refuseUnseen(): void {
    const unseen = [...this.#written.values()].filter(({ seen }) => seen === 'no');
    const [first] = unseen;
    if (first === undefined) return;
    const { id, name } = first.task;
    throw outlastError('ERR_RESULT_BEFORE_COMMIT', {
      message: `${unseen.length} sends are in transactions whose end the test kit has not seen; the first is ${name} ${id}`,
      hint: 'After COMMIT or ROLLBACK call `await kit.look()`; `outlast.transaction`, `relayOnce` and `drain` look by themselves.',
      fields: { id },
    });
  }

  async #each(
    find: (database: OutboxDatabase, row: string, written: Written) => Promise<boolean>,
  ): Promise<void> {
    if (this.#written.size === 0) return;
    const database = await this.#context.outboxDatabase();
    // One after the other: what is sent first goes on first.
    for (const [row, written] of this.#written) {
      const [wasOpen, isOver] = [written.isOpen(), written.isOver()];
      const isFound = await find(database, row, written);
      if (!isFound && isOver) this.#written.delete(row);
      else if (isFound) written.seen = 'found';
      else if (!wasOpen) written.seen = 'looked';
    }
  }

  /** The one session of an embedded database is busy with the open transaction: a look now would wait for itself. */
  #refuseInside(): void {
    const { config, outbox } = this.#context;
    if (!isEmbedded(outbox?.target ?? config.database)) return;
    const open = [...this.#written.values()].find(({ isOpen }) => isOpen());
    if (this.#transactions === 0 && open === undefined) return;
    throw outlastError('ERR_RESULT_BEFORE_COMMIT', {
      message: 'the test kit cannot look into the embedded database while a transaction is open',
      hint: 'Call it after COMMIT or ROLLBACK.',
      fields: { id: open?.task.id ?? '' },
    });
  }

  /** The stores of the test itself: whoever asks for a task, or cancels it, is answered as if it had been relayed. */
  behind(stores: Stores): Stores {
    const after = <P extends object>(port: P, names: readonly (keyof P)[]): P =>
      new Proxy(port, {
        get: (target, key) => {
          const value: unknown = Reflect.get(target, key, target);
          if (typeof value !== 'function') return value;
          const call = (...given: unknown[]): unknown =>
            (value as (...args: unknown[]) => unknown).apply(target, given);
          if (!names.includes(key as keyof P)) return call;
          return async (...given: unknown[]) => {
            await this.take();
            return await call(...given);
          };
        },
      });
    return {
      ...stores,
      outbox: after(stores.outbox, ['withdraw']),
      results: after(stores.results, ['read']),
    };
  }

  /** The ports of an instance, with the kit between them and the database. */
  around<Tx>(own: InstancePorts<Tx>): InstancePorts<Tx> {
    const { adapter, lenientWriter } = own;
    const askStatus = adapter.askStatus?.bind(adapter);
    return {
      sameDatabase: own.sameDatabase,
      isUncommitted: tx => own.isUncommitted(tx),
      adapter: {
        status: tx => adapter.status(tx),
        ...(askStatus && { askStatus }),
        transaction: fn => this.#transaction(own, fn),
      },
      writer: this.#writer(own.writer, own),
      lenientWriter: lenientWriter && this.#writer(lenientWriter, own),
      door: parts => this.#door(own, parts),
    };
  }

  async #transaction<Tx, T>(
    { adapter }: InstancePorts<Tx>,
    fn: (tx: Tx) => Promise<T>,
  ): Promise<T> {
    let lost: Fault | undefined;
    this.#transactions += 1;
    try {
      const value = await adapter.transaction(async tx => {
        const made = await fn(tx);
        const fault = this.#stores.takeFault('transaction');
        if (fault?.isLate === false) throw fault.error;
        lost = fault;
        return made;
      });
      if (lost !== undefined) throw lost.error;
      return value;
    } finally {
      this.#transactions -= 1;
      // What a failed look has not found is not looked for yet: `sent` says so.
      await this.#look().catch(() => undefined);
    }
  }

  #writer<Tx>(
    writer: OutboxWriter<Tx>,
    own: Pick<InstancePorts<Tx>, 'adapter' | 'isUncommitted'>,
  ): OutboxWriter<Tx> {
    return {
      isInTransaction: tx => writer.isInTransaction(tx),
      write: (tx, tasks, ready) => {
        const state = {
          isOpen: () => own.isUncommitted(tx),
          isOver: () => own.adapter.status(tx) === 'none',
        };
        const rows = tasks.map(task => ({ task, row: this.#scoped(task.id) }));
        const before = rows.map(({ row }) => this.#written.get(row));
        const now = rows.map(({ task, row }): Written => {
          const written: Written = { task, ...state, seen: 'no' };
          this.#written.delete(row);
          this.#written.set(row, written);
          return written;
        });
        const undo = (at: number): void => {
          const { row } = rows[at] as (typeof rows)[number];
          if (this.#written.get(row) !== now[at]) return;
          this.#written.delete(row);
          const earlier = before[at];
          if (earlier !== undefined) this.#written.set(row, earlier);
        };
        const scoped = rows.map(({ task }) => this.#rowOf(task));
        return writer.write(tx, scoped, ready).then(
          answers => {
            for (const [at, { kind }] of answers.entries()) if (kind !== 'new') undo(at);
            return answers.map(answer => this.#answer(answer));
          },
          (error: unknown) => {
            for (const at of rows.keys()) undo(at);
            throw error;
          },
        );
      },
    };
  }

  #door<Tx>(own: InstancePorts<Tx>, parts: DoorParts): EffectDoor<Tx> {
    const process = this.#process;
    // A killed process loses its connection: what it had open is rolled back, and nothing of it goes on.
    const orDeath = <T>(work: Promise<T>): Promise<T> =>
      process === null ? work : Promise.race([work, process.death]);
    const real = own.door({
      faultPoint: async name => await orDeath(Promise.resolve(parts.faultPoint(name))),
      ledger: {
        raiseEpoch: (run, above) =>
          orDeath(parts.ledger.raiseEpoch({ ...run, id: this.#ids.get(run.id) ?? run.id }, above)),
      },
    });
    const asking = async <T>(ask: () => Promise<T>): Promise<T> => {
      this.#asked += 1;
      try {
        return await ask();
      } finally {
        this.#asked -= 1;
      }
    };
    const outlived = <T>(work: Promise<T>): Promise<T> => process?.outlived(work) ?? work;
    return {
      locksTask: real.locksTask,
      fence: run => outlived(asking(() => real.fence(this.#run(run)))),
      pass: (run, step, fn) =>
        outlived(asking(() => real.pass(this.#run(run), step, tx => orDeath(fn(tx))))),
    };
  }

  /** What a run of another test, or of real workers, has done under the same id or key is not its own. */
  #run<R extends DoorRun>(run: R): R {
    const { effect } = run;
    return {
      ...run,
      id: this.#scoped(run.id),
      ...(effect && { effect: { ...effect, key: this.#scoped(effect.key) } }),
    };
  }

  #rowOf(task: NewTask): NewTask {
    const { id, idempotencyKey: key, orderingKey: order } = task;
    return {
      ...task,
      isForTest: true,
      id: this.#scoped(id),
      idempotencyKey: key === null ? null : this.#scoped(key),
      orderingKey: order === null ? null : this.#scoped(order),
    };
  }

  #answer(answer: WriteAnswer): WriteAnswer {
    if (answer.kind !== 'earlier') return answer;
    return { kind: 'earlier', id: this.#ids.get(answer.id) ?? answer.id };
  }

  #scoped(id: string): string {
    const long = this.#scope + id;
    const scoped = long.length <= LONGEST_KEY ? long : this.#scope + keyHash(id);
    this.#ids.set(scoped, id);
    return scoped;
  }
}

function unfit(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: 'the outbox of a test kit cannot be in this kind of database',
    hint: 'It can be in PostgreSQL and PGlite. Leave out `outbox` for one in memory.',
    fields: { option: 'outbox' },
  });
}
