import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PgDatabase } from '../../dist/adapters/postgres/pg-database.js';
import { PostgresCheckpointStore } from '../../dist/adapters/postgres/postgres-checkpoint-store.js';
import { PostgresLedgerReads } from '../../dist/adapters/postgres/postgres-ledger-reads.js';
import { task, unchecked } from '../../dist/index.js';
import { sweepCheckpoints } from '../../dist/recovery/sweep-checkpoints.js';
import { gate } from '../support/database.ts';
import { useWorkerKit } from '../support/worker-kit.ts';

const kit = useWorkerKit();
const LARGE = 'x'.repeat(300_000);

interface Target {
  readonly options: { readonly checkpointFolder?: string };
  readonly count: () => Promise<number>;
}

function inFolder(): Target {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-checkpoints-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return { options: { checkpointFolder: folder }, count: async () => readdirSync(folder).length };
}

const inDatabase = (): Target => ({ options: {}, count: async () => (await tasksIn()).length });

/** The tasks that have a large checkpoint in the database. */
async function tasksIn(): Promise<readonly string[]> {
  const text = 'select distinct task_id from outlast_checkpoint';
  const { rows } = await kit().database.pool.query<{ task_id: string }>(text);
  return rows.map(row => row.task_id);
}

describe('a checkpoint', () => {
  it('is reported with its size, once it is stored', async () => {
    const { name, queue } = kit().names();
    const work = task(name, { queue, result: unchecked<null>() });
    const sizes: number[] = [];
    const undo = kit().outlast.on('task:checkpointed', event => {
      if (event.name === name) sizes.push(event.bytes);
    });
    onTestFinished(undo);
    const handler = kit().outlast.handler(work, {
      checkpoint: unchecked<string>(),
      run: async (_input, ctx) => {
        await ctx.checkpoint('abc');
        await ctx.checkpoint('abcdef');
        return null;
      },
    });
    await kit().withWorker([handler], async () => (await kit().outlast.push(work)).result());
    expect(sizes).toEqual([5, 8]);
  });
});

describe('a checkpoint that is too large for the ledger', () => {
  it.each([
    ['the database', inDatabase],
    ['a folder', inFolder],
  ])(
    'in %s is what the next run starts from, and is deleted when the task is done',
    async (_, target) => {
      const { count, options } = target();
      const { name, queue } = kit().names();
      const work = task(name, { queue, result: unchecked<unknown>() });
      const seen: unknown[] = [];
      const handler = kit().outlast.handler(work, {
        retry: { backoff: '10ms' },
        checkpoint: unchecked<{ page: number; text: string }>(),
        run: async (_input, ctx) => {
          const { page = 0, text = '' } = ctx.lastCheckpoint ?? {};
          seen.push([page, text.length]);
          await ctx.checkpoint({ page: page + 1, text: LARGE });
          expect(await count()).toBe(1);
          if (page < 2) throw new Error('again');
          return page;
        },
      });
      await kit().withWorker(
        [handler],
        async () => expect(await (await kit().outlast.push(work)).result()).toBe(2),
        options,
      );
      expect(seen).toEqual([
        [0, 0],
        [1, LARGE.length],
        [2, LARGE.length],
      ]);
      expect(await count()).toBe(0);
    },
  );

  it('that is damaged counts as none: the run starts from the beginning', async () => {
    const { name, queue } = kit().names();
    const work = task(name, { queue, result: unchecked<unknown>() });
    const handler = kit().outlast.handler(work, {
      retry: { backoff: '10ms' },
      checkpoint: unchecked<string>(),
      run: async (_input, ctx) => {
        if (ctx.attempt === 2) return ctx.lastCheckpoint ?? 'nothing';
        await ctx.checkpoint(LARGE);
        await kit().database.pool.query(
          `update outlast_checkpoint set data = set_byte(data, 5, 0) where task_id = $1`,
          [ctx.id],
        );
        throw new Error('again');
      },
    });
    await kit().withWorker([handler], async () =>
      expect(await (await kit().outlast.push(work)).result()).toBe('nothing'),
    );
  });

  it('of a cancelled task is deleted; that of a dead task is kept', async () => {
    const { name, queue } = kit().names();
    const work = task(name, { queue, input: unchecked<string>() });
    const begun = gate();
    const handler = kit().outlast.handler(work, {
      retry: { maxAttempts: 1 },
      checkpoint: unchecked<string>(),
      run: async (what, ctx) => {
        await ctx.checkpoint(LARGE);
        if (what === 'dies') throw new Error('for good');
        begun.open();
        await new Promise(resolve => ctx.signal.addEventListener('abort', resolve));
      },
    });
    const db = await PgDatabase.open({
      url: kit().database.url,
      poolSize: 1,
      queryTimeoutMs: 30_000,
    });
    onTestFinished(() => db.close());
    await kit().withWorker([handler], async () => {
      const dead = await kit().outlast.push(work, 'dies');
      const cancelled = await kit().outlast.push(work, 'hangs');
      await begun.opened;
      await kit().deadLetter(dead.id);
      await cancelled.cancel();
      const store = new PostgresCheckpointStore(db);
      await sweepCheckpoints(store, new PostgresLedgerReads(db), -60_000);
      expect(await tasksIn()).toEqual([dead.id]);
    });
  });

  it('that does not fit on the disk is an error, and only the previous one stays', () => {
    const folder = mkdtempSync(join(tmpdir(), 'outlast-checkpoints-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const module = new URL(
      '../../dist/adapters/folder/folder-checkpoint-store.js',
      import.meta.url,
    );
    const script = `
      import { FolderCheckpointStore } from ${JSON.stringify(module.href)};
      const store = new FolderCheckpointStore(${JSON.stringify(folder)});
      const key = seq => ({ taskId: 'one', epoch: 1, seq });
      await store.write(key(1), Buffer.alloc(100_000));
      const told = await store.write(key(2), Buffer.alloc(300_000)).catch(error => error.code);
      const before = await store.read(key(1), 100_000);
      console.log(JSON.stringify([told, before.length]));`;
    // No file may exceed 200 KiB: as on a full disk, the write that reaches the limit is partial.
    const shell = 'ulimit -f 200; exec "$0" --input-type=module -e "$1"';
    const said = execFileSync('bash', ['-c', shell, process.execPath, script], {
      encoding: 'utf8',
    });
    expect(JSON.parse(said)).toEqual(['EFBIG', 100_000]);
    expect(readdirSync(folder)).toHaveLength(1);
  });
});
