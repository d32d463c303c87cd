import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/support/database.ts';
import { withDatabase } from '../../../test/support/servers.ts';
import type { ChordPart } from '../../ledger/ledger.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { migrate } from './migrate.ts';
import { MIGRATIONS } from './migrations.generated.ts';
import { PgDatabase } from './pg-database.ts';
import { PostgresChordCount } from './postgres-chord.ts';
import { SQL } from './sql.generated.ts';

const POOL_SIZE = 2;

interface Setup {
  readonly db: PgDatabase;
  readonly client: Client;
}

/** A database with the migrations before this version. */
async function setup(before = Number.POSITIVE_INFINITY): Promise<Setup> {
  const database = await withDatabase('chord');
  const { url } = database;
  const db = await PgDatabase.open({ url, poolSize: POOL_SIZE, queryTimeoutMs: 30_000 });
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await db.close();
    await database.drop();
  });
  await migrate(db, { migrations: MIGRATIONS.filter(({ version }) => version < before) });
  return { db, client };
}

const partsOf = (size: number): ChordPart[] =>
  Array.from({ length: size }, (_, index) => ({
    groupId: 'g',
    index,
    size,
    taskId: `t${index}`,
    result: String(index),
  }));

const complete = (size: number) => ({
  status: 'complete',
  results: partsOf(size).map(({ result }) => result),
  isSigned: false,
});

describe('a chord in PostgreSQL', () => {
  it('has its parts read once, by the one that completes it', async () => {
    const { db } = await setup();
    let reads = 0;
    const counting: SqlDatabase = {
      query: async (text, params) => {
        const rows = await db.query(text, params);
        reads += rows.filter(row => 'result' in row).length;
        return rows;
      },
      transaction: fn => db.transaction(fn),
      close: () => db.close(),
    };
    const chords = new PostgresChordCount(counting);
    const answers = await Promise.all(partsOf(20).map(part => chords.join(part)));
    expect(answers.filter(({ status }) => status === 'complete')).toEqual([complete(20)]);
    expect(reads).toBe(20);
  });

  it('takes one connection of a process while another session holds it', async () => {
    const { db, client } = await setup();
    const chords = new PostgresChordCount(db);
    const [first, ...others] = partsOf(5) as [ChordPart, ...ChordPart[]];
    await chords.join(first);
    await client.query(`begin; select 1 from outlast_chord where group_id = 'g' for update`);
    const joining = others.map(part => chords.join(part));
    // With all connections waiting for the chord, this would wait for it, too.
    await until(async () => (await db.query('select 1 from pg_locks where not granted')).length);
    await client.query('commit');
    expect((await Promise.all(joining)).at(-1)).toEqual(complete(5));
  });

  it('goes on after a part that could not be counted', async () => {
    const { db } = await setup();
    const chords = new PostgresChordCount(db);
    const [first, second] = partsOf(2) as [ChordPart, ChordPart];
    const broken = chords.join({ ...first, index: 2 ** 31 });
    const joined = Promise.all([chords.join(first), chords.join(second)]);
    await expect(broken).rejects.toThrow('out of range');
    expect((await joined)[1]).toEqual(complete(2));
  });

  it('is complete with parts from before the count, and with those that an older process joins', async () => {
    const added = MIGRATIONS.find(({ name }) => name.endsWith('-chord-counts'))?.version;
    const { db, client } = await setup(added);
    const older = `insert into outlast_chord_part (group_id, place, size, task_id, result) values ($1, $2, $3, $4, $5)`;
    const joinAsBefore = async ({ groupId, index, size, taskId, result }: ChordPart) =>
      await client.query(older, [groupId, index, size, taskId, result]);
    const [first, second, third, fourth] = partsOf(4) as [
      ChordPart,
      ChordPart,
      ChordPart,
      ChordPart,
    ];
    await joinAsBefore(first);
    await joinAsBefore({ ...second, result: null });
    await migrate(db);
    await joinAsBefore(third);
    await client.query(`update outlast_chord_part set result = '1' where place = 1`);
    const chords = new PostgresChordCount(db);
    expect(await chords.join(fourth)).toEqual(complete(4));
    await db.query(SQL.chordClose, ['g']);
    expect(await chords.join(fourth)).toEqual({ status: 'open' });
  });
});
