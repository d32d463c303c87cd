import { openPGliteDatabase } from '../../src/adapters/pglite/pglite-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { PostgresBroker } from '../../src/adapters/postgres/postgres-broker.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { PostgresReadModel } from '../../src/adapters/postgres/postgres-read-model.ts';
import { PostgresResultStore } from '../../src/adapters/postgres/postgres-result-store.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import type { SqlRunner } from '../../src/adapters/postgres/sql-database.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { describeLedgerBroker } from './broker.ts';
import { bodyParts } from './envelopes.ts';
import { describeLedger } from './ledger.ts';
import { describeOutboxStore } from './outbox-store.ts';
import { describeResultStore } from './result-store.ts';

const b64 = (b: Uint8Array): string => Buffer.from(b).toString('base64');
async function insert(run: SqlRunner, envelopes: readonly Envelope[]) {
  for (const e of envelopes) {
    const p = bodyParts(e);
    await run.query(SQL.enqueue, [e.id, e.name, e.queue, String(e.priority), b64(p.args), b64(p.kwargs), b64(p.embed), b64(e.options), e.digest, '1', String(e.version), e.etaMs === null ? null : String(e.etaMs), e.expiresMs === null ? null : String(e.expiresMs), null, '', '1000']);
  }
}
async function make() {
  const db = await openPGliteDatabase({ memory: true });
  await migrate(db);
  const cols = await db.query(`select table_name, column_name from information_schema.columns where table_name like 'outlast_%' and data_type = 'timestamp with time zone'`);
  const ledger = new PostgresLedger(db);
  const store = new PostgresOutboxStore(db, { movesIntoLedger: true });
  return {
    ledger, store,
    results: new PostgresResultStore(db),
    readModel: new PostgresReadModel(db),
    broker: new PostgresBroker(db),
    write: (envelopes: readonly Envelope[]) => db.transaction(tx => insert(tx, envelopes)),
    writeRolledBack: async (envelopes: readonly Envelope[]) => { await db.transaction(async tx => { await insert(tx, envelopes); throw new Error('undo'); }).catch(() => undefined); },
    countRows: async (ids: readonly string[]) => (await db.query('select 1 from outlast_outbox where task_id = any($1::text[])', [[...ids]])).length,
    nowMs: async () => Date.now(),
    advance: async (ms: number) => { for (const c of cols) await db.query(`update ${c['table_name'] as string} set ${c['column_name'] as string} = ${c['column_name'] as string} - ${ms} * interval '1 millisecond'`); },
    dispose: () => db.close(),
  };
}
describeLedger('pglite', make);
describeOutboxStore('pglite', make);
describeResultStore('pglite', make);
describeLedgerBroker('pglite', make);
