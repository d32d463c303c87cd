import { afterAll, beforeAll } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  type Handler,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { migratedDatabase, until, type MigratedDatabase } from './database.ts';

type WorkerOptions = Partial<Omit<Parameters<typeof startWorker>[1], 'tasks' | 'queues'>>;

/** A database with relay and recovery running, and workers for one test at a time. */
export interface WorkerKit {
  readonly database: MigratedDatabase;
  readonly outlast: Outlast<PoolClient>;
  /** A name and a queue that no other test uses: workers take only what is theirs. */
  names(): { readonly name: string; readonly queue: string };
  withWorker<T>(
    handlers: readonly Handler[],
    fn: (worker: Service) => Promise<T>,
    options?: WorkerOptions,
  ): Promise<T>;
  effectsOf(id: string): Promise<readonly string[]>;
  deadLetter(id: string): Promise<DeadLetterDetails>;
}

async function create(): Promise<{ readonly kit: WorkerKit; dispose(): Promise<void> }> {
  const database = await migratedDatabase('worker');
  await database.pool.query('create table effect (task_id text not null, what text not null)');
  const outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
  const services = [await startRelay(outlast), await startResurrector(outlast)];
  let count = 0;
  const kit: WorkerKit = {
    database,
    outlast,
    names: () => {
      count += 1;
      return { name: `worker.task-${count}`, queue: `q${count}` };
    },
    withWorker: async (handlers, fn, options = {}) => {
      const queues = [...new Set(handlers.map(handler => handler.task.contract.queue))];
      const worker = await startWorker(outlast, { tasks: handlers, queues, ...options });
      try {
        return await fn(worker);
      } finally {
        await worker.stop();
      }
    },
    effectsOf: async id => {
      const text = 'select what from effect where task_id = $1 order by what';
      return (await database.pool.query<{ what: string }>(text, [id])).rows.map(row => row.what);
    },
    deadLetter: id => until(() => createAdmin(outlast).deadLetters.show(id)),
  };
  const dispose = async (): Promise<void> => {
    for (const service of services) await service.stop();
    await outlast.close();
    await database.dispose();
  };
  return { kit, dispose };
}

/** The kit of one test file. */
export function useWorkerKit(): () => WorkerKit {
  let made: Awaited<ReturnType<typeof create>> | undefined;
  beforeAll(async () => {
    made = await create();
  });
  afterAll(() => made?.dispose());
  return () => {
    if (made === undefined) throw new Error('the kit has not been made');
    return made.kit;
  };
}
