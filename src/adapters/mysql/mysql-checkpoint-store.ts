import { PartedCheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';
import type { MysqlStatement } from './statement.ts';

/** Bytes travel as two digits each, and the smallest `max_allowed_packet` still in use is 1 MiB. */
const PART_BYTES = 393_216;

/** Large checkpoints in the database of the outbox. */
export class MysqlCheckpointStore extends PartedCheckpointStore<MysqlStatement> {
  constructor(db: MysqlDatabase) {
    super({
      partBytes: PART_BYTES,
      statements: SQL,
      rows: (statement, params) => db.rows(statement, params),
      change: (statement, params) => db.change(statement, params),
    });
  }
}
