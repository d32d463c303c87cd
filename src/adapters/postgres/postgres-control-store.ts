import type {
  Consumer,
  ConsumerReport,
  ControlOrders,
  ControlStore,
} from '../../ledger/control-store.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Orders of operators for workers, beside a ledger in PostgreSQL. */
export class PostgresControlStore implements ControlStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async look({ worker, queues }: ConsumerReport): Promise<ControlOrders> {
    const row = (await this.#db.query(SQL.controlLook, [worker, queues]))[0] ?? {};
    return { paused: textsIn(row['paused']), isDraining: row['draining'] === true };
  }

  async pause(queue: string): Promise<boolean> {
    return (await this.#db.query(SQL.controlPause, [queue])).length === 1;
  }

  async resume(queue: string): Promise<boolean> {
    return (await this.#db.query(SQL.controlResume, [queue])).length === 1;
  }

  async paused(): Promise<readonly string[]> {
    return (await this.#db.query(SQL.controlPaused)).map(row => row['name'] as string);
  }

  async consumers(): Promise<readonly Consumer[]> {
    return (await this.#db.query(SQL.controlConsumers)).map(row => ({
      worker: row['id'] as string,
      process: row['process'] as string,
      host: row['host'] as string,
      pid: row['pid'] as number,
      queues: textsIn(row['queues']),
      running: Number(row['running']),
      isDraining: row['draining'] as boolean,
    }));
  }

  async drain(worker: string): Promise<boolean> {
    return (await this.#db.query(SQL.controlDrain, [worker])).length === 1;
  }
}

/** Drivers return arrays of texts in different ways; JSON is the same in all. */
const textsIn = (json: unknown): readonly string[] => JSON.parse(json as string) as string[];
