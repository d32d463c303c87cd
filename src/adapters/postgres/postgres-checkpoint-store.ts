import { PartedCheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Not every connection takes a parameter of any size. */
const PART_BYTES = 4_194_304;

/** Large checkpoints in the database of the outbox. */
export class PostgresCheckpointStore extends PartedCheckpointStore<string> {
  constructor(db: SqlDatabase) {
    super({
      partBytes: PART_BYTES,
      statements: SQL,
      rows: (text, params) => db.query(text, params),
      change: (text, params) => db.query(text, params),
    });
  }
}
