import type { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlOutboxReads } from '../../src/adapters/mysql/mysql-outbox-reads.ts';
import { MysqlOutboxStore } from '../../src/adapters/mysql/mysql-outbox-store.ts';
import { SQL } from '../../src/adapters/mysql/sql.generated.ts';
import { bindRows } from '../../src/adapters/mysql/statement.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { bodyParts } from './envelopes.ts';
import type { OutboxReadsFixture, RowWriting } from './outbox-reads.ts';
import type { OutboxFixture } from './outbox-store.ts';

/** Every column that holds a time: the server's clock cannot be moved, so the times are. */
const TIMES: Readonly<Record<string, readonly string[]>> = {
  outlast_outbox: ['available_at', 'updated_at', 'claimed_until', 'created_at', 'expires_at'],
  outlast_dead_letter: ['created_at', 'dead_at', 'expires_at'],
  outlast_relay: ['lease_until'],
  outlast_send_key: ['free_at'],
};

async function advance(db: MysqlDatabase, ms: number): Promise<void> {
  for (const [table, columns] of Object.entries(TIMES)) {
    const shifts = columns.map(
      column => `${column} = ${column} - interval ${ms} * 1000 microsecond`,
    );
    await db.query(`update ${table} set ${shifts.join(', ')}`);
  }
}

const base64 = (data: Uint8Array | string): string =>
  Buffer.from(data as Uint8Array).toString('base64');

function textsOf(row: RowWriting): (string | null)[] {
  const { envelope, orderingKey, parksKey, redacted, rowVersion } = row;
  const { args, kwargs, embed } = bodyParts(envelope);
  const { id, name, queue, priority, options, digest, version, etaMs, expiresMs } = envelope;
  return [
    id,
    name,
    queue,
    String(priority),
    ...[args, kwargs, embed, options].map(base64),
    digest,
    String(rowVersion ?? 1),
    String(version),
    ...[etaMs, expiresMs].map(ms => (ms === null ? null : String(ms))),
    null,
    orderingKey === undefined ? null : base64(orderingKey),
    parksKey === true ? '1' : '0',
    redacted === undefined ? null : base64(redacted.args),
    redacted === undefined ? null : base64(redacted.kwargs),
  ];
}

/** The outbox on one database: tests use names of their own, so suites may share it. */
export async function mysqlOutbox(db: MysqlDatabase): Promise<OutboxFixture & OutboxReadsFixture> {
  const reads = new MysqlOutboxReads(db);
  let advancedMs = 0;
  const write = async (
    written: readonly RowWriting[],
    last: () => void = () => undefined,
  ): Promise<void> =>
    await db.transaction(async tx => {
      const { text, values } = bindRows(SQL.enqueue, written.map(textsOf));
      await tx.query(text, values);
      last();
    });
  const plain = (envelopes: readonly Envelope[]): RowWriting[] =>
    envelopes.map(envelope => ({ envelope }));
  return {
    store: new MysqlOutboxStore(db, () => performance.now() + advancedMs),
    reads,
    ledger: null,
    readModel: {
      inspect: async () => null,
      showDeadLetter: id => reads.showDeadLetter(id),
      listDeadLetters: page => reads.listDeadLetters(page),
    },
    write: envelopes => write(plain(envelopes)),
    writeRow: row => write([row]),
    writeRolledBack: async envelopes => {
      const rollBack = new Error('rolled back on purpose');
      const writing = write(plain(envelopes), () => {
        throw rollBack;
      });
      await writing.catch((error: unknown) => {
        if (error !== rollBack) throw error;
      });
    },
    countRows: async taskIds => {
      const rows = await db.query('select id from outlast_outbox where task_id in (?)', [taskIds]);
      return rows.length;
    },
    nowMs: async () => {
      const [row] = await db.query(
        `select timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(6)) div 1000 as ms`,
      );
      return Number(row?.['ms']);
    },
    advance: async ms => {
      advancedMs += ms;
      await advance(db, ms);
    },
    dispose: async () => undefined,
  };
}
