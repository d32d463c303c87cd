import type { InstancePorts } from '../app/create-outlast.ts';
import { outlastError } from '../errors/error.ts';
import { notInTransaction } from '../outbox/transaction-adapter.ts';
import { MemoryEffects } from './memory/memory-effects.ts';
import { MemoryTransaction } from './memory/memory-transaction.ts';
import type { KitStores } from './kit-stores.ts';

/** Transactions in memory, each behind the object that user code sees as its `tx`. */
export function kitPorts<Tx>(stores: KitStores, makeTx: (() => Tx) | undefined): InstancePorts<Tx> {
  const inside = new Map<unknown, MemoryTransaction>();
  /** Every handle made here: one that is not inside any more has ended. */
  const made = new Set<unknown>();
  const shown = makeTx ?? ((): Tx => refusingTx() as Tx);
  const withTx = async <T>(tx: MemoryTransaction, fn: (tx: Tx) => Promise<T>): Promise<T> => {
    const handle = shown();
    made.add(handle);
    inside.set(handle, tx);
    try {
      return await fn(handle);
    } finally {
      inside.delete(handle);
    }
  };
  return {
    sameDatabase: null,
    isUncommitted: tx => inside.has(tx),
    adapter: {
      // A handle of another library is taken as it is: its rollback cannot be seen from here.
      status: tx => (made.has(tx) && !inside.has(tx) ? 'none' : 'open'),
      transaction: async fn => {
        const tx = new MemoryTransaction();
        const value = await withTx(tx, fn).catch((error: unknown) => {
          tx.rollback();
          throw error;
        });
        await stores.step('transaction', async () => tx.commit());
        return value;
      },
    },
    lenientWriter: null,
    writer: {
      isInTransaction: async () => true,
      write: async (handle, tasks) => {
        const open = inside.get(handle);
        if (open === undefined && made.has(handle)) throw notInTransaction('none');
        const tx = open ?? new MemoryTransaction();
        const answers = await stores.writer.write(tx, tasks);
        if (open === undefined) tx.commit();
        return answers;
      },
    },
    door: ({ faultPoint }) => {
      const effects = new MemoryEffects(stores.ledger, { faultPoint });
      return {
        locksTask: effects.locksTask,
        fence: () => effects.fence(),
        pass: (run, step, fn) => effects.pass(run, step, tx => withTx(tx, fn)),
      };
    },
  };
}

/** Says at once what a test has forgotten, instead of `tx.query is not a function`. */
export function refusingTx(): object {
  return new Proxy(
    {},
    {
      get: (_, key) => {
        if (typeof key === 'symbol' || key === 'then') return undefined;
        throw noSql(key);
      },
    },
  );
}

function noSql(member: string): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: `the transactions of a test kit are in memory: they have no \`${member}\``,
    hint: 'Give `createTestKit` a `tx`: a function that makes an object with what your code calls on its transactions.',
    fields: { option: 'tx' },
  });
}
