import { PostgresAdmissionStore } from '../../src/adapters/postgres/postgres-admission-store.ts';
import { PostgresBroker } from '../../src/adapters/postgres/postgres-broker.ts';
import { noteChords } from '../../src/adapters/postgres/postgres-chord.ts';
import { PostgresControlStore } from '../../src/adapters/postgres/postgres-control-store.ts';
import { PostgresIdempotencyStore } from '../../src/adapters/postgres/postgres-idempotency-store.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { PostgresOutboxStore } from '../../src/adapters/postgres/postgres-outbox-store.ts';
import { PostgresLedgerReads } from '../../src/adapters/postgres/postgres-ledger-reads.ts';
import { PostgresOutboxReads } from '../../src/adapters/postgres/postgres-outbox-reads.ts';
import { PostgresResultStore } from '../../src/adapters/postgres/postgres-result-store.ts';
import { PostgresTaskFences } from '../../src/adapters/postgres/postgres-fences.ts';
import type { PostgresDatabase } from '../../src/adapters/postgres/postgres-database.ts';
import type { SqlRunner } from '../../src/adapters/sql/sql-database.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { fromDatabase, type SqlTransaction } from '../../src/adapters/sql/sql-transaction.ts';
import { composeReads } from '../../src/admin/compose-reads.ts';
import { PostgresOutboxWriter } from '../../src/adapters/postgres/postgres-outbox-writer.ts';
import type { WriteAnswer } from '../../src/outbox/outbox-writer.ts';
import type { TextRow } from '../../src/outbox/transaction-adapter.ts';
import { noFaults, systemClock } from '../../src/runtime/runtime.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import type { AdmissionFixture } from './admission.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
import type { LedgerBrokerFixture } from './broker.ts';
import { bodyParts } from './envelopes.ts';
import type { DoorFixture } from './effect-door.ts';
import type { IdempotencyFixture } from './idempotency.ts';
import type { LedgerReadsFixture } from './ledger-reads.ts';
import type { OutboxReadsFixture, RowWriting } from './outbox-reads.ts';
import type { OutboxFixture } from './outbox-store.ts';
import type { ResultFixture } from './result-store.ts';
import type { StraightFixture } from './straight-send.ts';

/** Every column that holds a time: PostgreSQL's clock cannot be moved, so the times are. */
const TIMES: Readonly<Record<string, readonly string[]>> = {
  outlast_outbox: ['available_at', 'updated_at', 'claimed_until', 'created_at', 'expires_at'],
  outlast_dead_letter: ['dead_at', 'created_at', 'expires_at'],
  outlast_relay: ['lease_until'],
  outlast_send_key: ['free_at'],
  outlast_task: ['refused_at', 'due', 'keep_until', 'ended_at', 'created_at', 'expires_at'],
  outlast_worker: ['deadline'],
  outlast_after: ['created_at', 'due'],
  outlast_chord_part: ['joined_at'],
  outlast_chord: ['since'],
  outlast_idempotency: ['held_at', 'reviewed_at', 'expires_at'],
  outlast_admission: ['used_at'],
  outlast_place: ['since'],
  outlast_place_wanted: ['since'],
  outlast_permit: ['ends_at'],
  outlast_tally: ['at'],
};

async function advance(db: PostgresDatabase, ms: number): Promise<void> {
  // Rows of sums would meet each other under way.
  await db.query(
    `with gone as (delete from outlast_tally_sum where at > '-infinity' returning *) insert into outlast_tally select * from gone`,
  );
  for (const [table, columns] of Object.entries(TIMES)) {
    const shifts = columns.map(
      column => `${column} = ${column} - $1::float8 * interval '1 millisecond'`,
    );
    await db.query(`update ${table} set ${shifts.join(', ')}`, [ms]);
  }
  await db.query('update outlast_admission set tat_us = tat_us - $1::bigint', [
    Math.round(ms * 1_000),
  ]);
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

async function insert(tx: SqlRunner, envelope: Envelope): Promise<void> {
  const { args, kwargs, embed } = bodyParts(envelope);
  const { id, name, queue, priority, options, digest, version, etaMs, expiresMs } = envelope;
  const bytes = [args, kwargs, embed, options].map(base64);
  const times = [etaMs, expiresMs].map(ms => (ms === null ? null : String(ms)));
  await tx.query(SQL.enqueue, [
    id,
    name,
    queue,
    String(priority),
    ...bytes,
    digest,
    '1',
    String(version),
    ...times,
    null,
    'false',
    null,
    null,
  ]);
}

async function writeRow(db: PostgresDatabase, row: RowWriting): Promise<void> {
  const { envelope, orderingKey, parksKey, redacted, rowVersion } = row;
  await db.transaction(async tx => {
    await insert(tx, envelope);
    await tx.query(
      `update outlast_outbox set ordering_key = $2, parks_key = $3, schema_version = $4,
         redacted_args = convert_to($5, 'UTF8'), redacted_kwargs = convert_to($6, 'UTF8') where task_id = $1`,
      [
        envelope.id,
        orderingKey ?? null,
        parksKey ?? false,
        rowVersion ?? 1,
        redacted?.args ?? null,
        redacted?.kwargs ?? null,
      ],
    );
  });
}

const noDispose = async (): Promise<void> => undefined;

/** The fixtures of all suites on one database: tests use names of their own, so suites may share it. */
export function sqlFixtures(db: () => PostgresDatabase): {
  outbox(movesIntoLedger: boolean): Promise<OutboxFixture & ResultFixture & OutboxReadsFixture>;
  /** Without the tasks that other suites left waiting: the figures of an outbox include those of its database. */
  outboxReads(): Promise<OutboxReadsFixture>;
  ledger(): Promise<LedgerReadsFixture>;
  keys(): Promise<IdempotencyFixture>;
  ledgerBroker(): Promise<LedgerBrokerFixture>;
  admission(): Promise<AdmissionFixture>;
  /** A sender beside its ledger. */
  straight(): Promise<StraightFixture>;
  door(canInterleave: boolean): Promise<DoorFixture<SqlTransaction>>;
} {
  return {
    straight: async () => {
      const writer = new PostgresOutboxWriter<SqlRunner>(
        {
          execute: async (tx, text, values) => (await tx.query(text, values)) as TextRow[],
          isCertain: () => true,
        },
        systemClock,
        { target: 'ledger' },
      );
      return {
        ...(await sqlFixtures(db).outbox(true)),
        ledger: new PostgresLedger(db()),
        send: async (tasks, isRolledBack = false) => {
          const answers: WriteAnswer[] = [];
          const rollBack = new Error('rolled back on purpose');
          const writing = db().transaction(async tx => {
            answers.push(...(await writer.write(tx, tasks)));
            if (isRolledBack) throw rollBack;
          });
          await writing.catch((error: unknown) => {
            if (error !== rollBack) throw error;
          });
          return answers;
        },
      };
    },
    door: async canInterleave => {
      await db().query('create table if not exists effect (name varchar(200) not null)');
      return {
        ...(await sqlFixtures(db).outbox(true)),
        door: new EffectOnceDoor({
          fences: new PostgresTaskFences(fromDatabase(() => Promise.resolve(db()))),
          ledger: null,
          faultPoint: noFaults,
        }),
        write: async (tx, key) => void (await tx.query('insert into effect values ($1)', [key])),
        count: async key =>
          (await db().query('select 1 from effect where name = $1', [key])).length,
        canInterleave,
      };
    },
    outbox: async movesIntoLedger => {
      const ledger = new PostgresLedger(db());
      let advancedMs = 0;
      const monotonic = (): number => performance.now() + advancedMs;
      return {
        store: new PostgresOutboxStore(db(), { movesIntoLedger, monotonic }),
        ledger,
        results: new PostgresResultStore(db()),
        reads: new PostgresOutboxReads(db()),
        readModel: composeReads(
          new PostgresOutboxReads(db()),
          new PostgresLedgerReads(db()),
          new PostgresControlStore(db()),
        ),
        writeRow: row => writeRow(db(), row),
        write: envelopes =>
          db().transaction(async tx => {
            for (const envelope of envelopes) await insert(tx, envelope);
          }),
        writeRolledBack: async envelopes => {
          const rollBack = new Error('rolled back on purpose');
          const writing = db().transaction(async tx => {
            for (const envelope of envelopes) await insert(tx, envelope);
            throw rollBack;
          });
          await writing.catch((error: unknown) => {
            if (error !== rollBack) throw error;
          });
        },
        countRows: async taskIds => {
          const rows = await db().query(
            'select count(*)::int as n from outlast_outbox where task_id = any($1::text[])',
            [taskIds],
          );
          return rows[0]?.['n'] as number;
        },
        nowMs: async () =>
          Number(
            (
              await db().query(
                'select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as ms',
              )
            )[0]?.['ms'],
          ),
        advance: async ms => {
          advancedMs += ms;
          await advance(db(), ms);
        },
        dispose: noDispose,
      };
    },
    outboxReads: async () => {
      await db().query(`delete from outlast_task where state in ('waiting', 'refused')`);
      return sqlFixtures(db).outbox(false);
    },
    ledger: async () => ({
      ...(await sqlFixtures(db).outbox(true)),
      ledger: new PostgresLedger(db()),
      reads: new PostgresLedgerReads(db()),
      announce: messages => noteChords(db(), messages),
    }),
    keys: async () => ({
      store: new PostgresIdempotencyStore(db()),
      advance: ms => advance(db(), ms),
      dispose: noDispose,
    }),
    admission: async () => ({
      ...(await sqlFixtures(db).outbox(true)),
      store: new PostgresAdmissionStore(db()),
    }),
    ledgerBroker: async () => ({
      broker: new PostgresBroker(db()),
      ledger: new PostgresLedger(db()),
      dispose: noDispose,
    }),
  };
}
