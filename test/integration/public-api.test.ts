import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { PoolClient } from 'pg';
import { z } from 'zod';
import {
  createOutlast,
  isOutlastError,
  OutlastError,
  runOnce,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Logger,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { CONTEXT } from '../../dist/app/outlast.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { withDatabase } from '../support/servers.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const require = createRequire(import.meta.url);

let database: MigratedDatabase;
let outlast: Outlast<PoolClient>;

beforeAll(async () => {
  database = await migratedDatabase('public_api');
  outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
});

let count = 0;
/** A name and a queue that no other test uses. */
const names = (): { name: string; queue: string } => {
  count += 1;
  return { name: `api.task-${count}`, queue: `q${count}` };
};

/** A log that a test can read. */
function memoryLog(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const add =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const log = {
    lines,
    debug: add('debug'),
    info: add('info'),
    warn: add('warn'),
    error: add('error'),
    child: () => log,
  };
  return log;
}

const EXPORTS: Readonly<Record<string, readonly string[]>> = {
  outlast: [
    'AdmissionRejectedError',
    'ConfigError',
    'InvariantError',
    'OutcomeError',
    'OutlastError',
    'OwnershipError',
    'RejectedTaskError',
    'UnavailableError',
    'UsageError',
    'bury',
    'chain',
    'chord',
    'createOutlast',
    'currentContext',
    'currentTask',
    'defineConfig',
    'discard',
    'group',
    'isOutlastError',
    'python',
    'retryIn',
    'runOnce',
    'shutdownSignal',
    'startRelay',
    'startResurrector',
    'startWorker',
    'task',
    'unchecked',
    'withContext',
  ],
  'outlast/task': ['chain', 'chord', 'group', 'python', 'task', 'unchecked'],
  'outlast/pg': ['fromPg'],
  'outlast/pglite': ['fromPGlite'],
  'outlast/mysql2': ['fromMysql2'],
  'outlast/mariadb': ['fromMariadb'],
  'outlast/postgres-js': ['fromPostgresJs'],
  'outlast/kysely': ['fromKysely'],
  'outlast/drizzle': ['fromDrizzle'],
  'outlast/prisma': ['fromPrisma'],
  'outlast/typeorm': ['fromTypeOrm'],
  'outlast/knex': ['fromKnex'],
  'outlast/mikro-orm': ['fromMikroOrm'],
  'outlast/sequelize': ['fromSequelize'],
  'outlast/admin': ['createAdmin'],
  'outlast/metrics': ['createMetrics'],
  'outlast/express': ['outlastContext', 'outlastErrors'],
  'outlast/fastify': ['outlastPlugin'],
  'outlast/hono': ['outlastContext', 'outlastErrors'],
  'outlast/nestjs': [
    'Handles',
    'InjectOutlast',
    'OUTLAST',
    'OutlastExceptionFilter',
    'OutlastHealthIndicator',
    'OutlastModule',
    'handlersOf',
  ],
  'outlast/dev': ['startDev'],
  'outlast/testing': ['assertSent', 'createTestKit', 'fakeContext'],
  'outlast/testing/vitest': [],
  'outlast/testing/jest': ['outlastMatchers'],
};

describe('the package', () => {
  it('exports these names and no others', async () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      exports: Readonly<Record<string, unknown>>;
    };
    const paths = Object.keys(manifest.exports).filter(path => path !== './package.json');
    expect(paths.map(path => join('outlast', path))).toEqual(Object.keys(EXPORTS));
    for (const [path, list] of Object.entries(EXPORTS)) {
      const module = (await import(path)) as object;
      expect(Object.keys(module).toSorted()).toEqual(list);
    }
  });

  // Vitest itself refuses require().
  it.each(Object.keys(EXPORTS).filter(path => path !== 'outlast/testing/vitest'))(
    'gives %s to require(), so no module has a top-level await',
    path => {
      expect(Object.keys(require(path) as object)).toEqual(
        expect.arrayContaining([...(EXPORTS[path] ?? [])]),
      );
    },
  );

  it('loads no Node built-in and no driver for contracts', () => {
    const packages = new Set<string>();
    walk(join(ROOT, 'dist/task/index.js'), packages, new Set());
    expect([...packages]).toEqual([]);
  });

  it('loads no driver before a URL needs it', () => {
    const packages = new Set<string>();
    walk(join(ROOT, 'dist/index.js'), packages, new Set());
    const outside = [...packages].filter(name => !name.startsWith('node:'));
    expect(outside).toEqual(['lossless-json']);
  });
});

const IMPORT = /^(?:import|export)\s+(?:[\w$*{}\s,]+?\sfrom\s+)?['"]([^'"]+)['"]/gm;

/** Follows static imports; imports from outside the package are collected. */
function walk(file: string, packages: Set<string>, seen: Set<string>): void {
  if (seen.has(file)) return;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, specifier = ''] of text.matchAll(IMPORT)) {
    if (specifier.startsWith('.')) walk(join(dirname(file), specifier), packages, seen);
    else packages.add(specifier);
  }
}

/** A second copy of the package, as two versions of a dependency cause it. */
function secondCopy(): typeof import('../../dist/index.js') {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-copy-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(ROOT, 'dist'), join(folder, 'dist'), { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['pg', 'lossless-json'])
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
  return require(join(folder, 'dist/index.js')) as typeof import('../../dist/index.js');
}

describe('two copies of the package', () => {
  it('recognise each other by brand: errors, tasks, handlers and verdicts of one work in the other', async () => {
    const other = secondCopy();
    expect(other.OutlastError).not.toBe(OutlastError);
    const thrown = await other
      .createOutlast()
      .push({} as never)
      .catch((error: unknown) => error);
    expect(isOutlastError(thrown, 'ERR_TASK_UNKNOWN')).toBe(true);
    expect(other.isOutlastError(thrown)).toBe(true);

    const { name, queue } = names();
    const theirs = other.task(name, { queue, result: z.string() });
    const instance = other.createOutlast({ database: database.url });
    onTestFinished(() => instance.close());
    const handler = instance.handler(theirs, (_, ctx) =>
      ctx.attempt === 1 ? other.retryIn('1ms', 'once more') : `attempt ${ctx.attempt}`,
    );
    const worker = await startWorker(instance, { tasks: [handler], queues: [queue] });
    try {
      const sent = await outlast.push(theirs);
      expect(await sent.result()).toBe('attempt 2');
    } finally {
      await worker.stop();
    }
  });
});

const idleHandler = (from: Outlast<never>) =>
  from.handler(task('api.idle', { queue: 'api-idle' }), () => undefined);

type Start = (options: { signal?: AbortSignal }) => Promise<Service>;

const START: Readonly<Record<string, (from: Outlast<never>) => Start>> = {
  startRelay: from => options => startRelay(from, { ...options, idleTime: '50ms' }),
  startWorker: from => options =>
    startWorker(from, { ...options, tasks: [idleHandler(from)], idleTime: '50ms' }),
  startResurrector: from => options => startResurrector(from, { ...options, interval: '50ms' }),
};

describe.each(Object.entries(START))('%s', (_, make) => {
  const start: Start = options => make(outlast as unknown as Outlast<never>)(options);

  it('stops on request, early and twice', async () => {
    const service = await start({});
    await Promise.all([service.stop(), service.stop()]);
    await service.stop();
    expect(await service.finished).toBeUndefined();
  });

  it('stops when its signal aborts, also if it was aborted before', async () => {
    const ending = new AbortController();
    const service = await start({ signal: ending.signal });
    ending.abort();
    expect(await service.finished).toBeUndefined();
    expect(await (await start({ signal: AbortSignal.abort() })).finished).toBeUndefined();
  });

  it('is disposed at the end of its block', async () => {
    const service = await start({});
    await service[Symbol.asyncDispose]();
    expect(await service.finished).toBeUndefined();
  });

  it('is refused where the tables are missing, and finished rejects when they are dropped', async () => {
    const bare = await withDatabase('api_bare');
    onTestFinished(() => bare.drop());
    const unmigrated = createOutlast({ database: bare.url });
    onTestFinished(() => unmigrated.close());
    const missing = { code: 'ERR_SCHEMA_MISSING' };
    await expect(make(unmigrated as never)({})).rejects.toMatchObject(missing);

    const own = await migratedDatabase('api_broken');
    onTestFinished(() => own.dispose());
    const broken = createOutlast({ database: own.url });
    onTestFinished(() => broken.close());
    const service = await make(broken as never)({});
    await own.pool.query('drop table outlast_outbox, outlast_task, outlast_worker cascade');
    await expect(service.finished).rejects.toMatchObject(missing);
    await expect(service.stop()).rejects.toMatchObject(missing);
  });
});

describe('startWorker', () => {
  it('refuses two handlers of one task and unknown options', async () => {
    const { name } = names();
    const twice = [1, 2].map(() => outlast.handler(task(name), () => undefined));
    await expect(startWorker(outlast, { tasks: twice })).rejects.toMatchObject({
      code: 'ERR_TASK_DUPLICATE',
    });
    const wrong = { tasks: [], concurency: 5 };
    await expect(startWorker(outlast, wrong)).rejects.toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      nearest: 'concurrency',
    });
  });
});

describe('runOnce', () => {
  /** An instance on a separate database, so that no other test has work there. */
  async function setup(): Promise<{ once: Outlast; own: MigratedDatabase; seen: unknown[] }> {
    const own = await migratedDatabase('api_once');
    onTestFinished(() => own.dispose());
    // Short, because the lease of a dead process is waited for; long, because the machine is busy.
    const worker = { lease: '3s', beat: '500ms' } as const;
    const once = createOutlast({ database: own.url, worker });
    onTestFinished(() => once.close());
    return { once, own, seen: [] };
  }
  const note = task('api.note', { input: unchecked<{ n: number }>() });

  it('runs due tasks and returns, leaving those that wait', async () => {
    const { once, seen } = await setup();
    const handler: Handler = once.handler(note, ({ n }) => void seen.push(n));
    const [, , later, foreign] = await once.transaction(tx =>
      once.sendMany(tx, [
        note.with({ n: 1 }),
        note.with({ n: 2 }),
        note.with({ n: 3 }, { countdown: '1h' }),
        note.with({ n: 4 }, { queue: 'elsewhere' }),
      ]),
    );
    await runOnce(once, { tasks: [handler] });
    expect(new Set(seen)).toEqual(new Set([1, 2]));
    expect(seen).toHaveLength(2);
    expect(await later.state()).toBe('waiting');
    expect(await foreign.state()).toBe('waiting');
  });

  it('runs tasks that the relay moves while it looks whether any are left', async () => {
    const { once, own, seen } = await setup();
    await once.transaction(tx =>
      once.sendMany(tx, [
        note.with({ n: 1 }, { orderingKey: 'a' }),
        note.with({ n: 2 }, { orderingKey: 'b' }),
      ]),
    );
    const { reads, outbox } = await once[CONTEXT].stores();
    const holder = await own.pool.connect();
    await holder.query('begin; lock table outlast_outbox in share mode');
    const moved = async (): Promise<boolean> => {
      const { rows } = await own.pool.query('select 1 from outlast_outbox');
      return rows.length === 0;
    };
    // Nothing moves before the first look has its answer, and everything does before the answer arrives.
    const late = async <T>(answer: T): Promise<T> => {
      await holder.query('commit');
      await until(moved);
      return answer;
    };
    const [stats, nextDueMs] = [reads.stats.bind(reads), outbox.nextDueMs.bind(outbox)];
    let looks = 0;
    const look = async <T>(ask: () => Promise<T>): Promise<T> => {
      looks += 1;
      return looks === 1 ? late(await ask()) : ask();
    };
    vi.spyOn(reads, 'stats').mockImplementation(top => look(() => stats(top)));
    vi.spyOn(outbox, 'nextDueMs').mockImplementation(() => look(nextDueMs));
    await runOnce(once, { tasks: [once.handler(note, ({ n }) => void seen.push(n))] });
    holder.release();
    expect(new Set(seen)).toEqual(new Set([1, 2]));
  });

  it('brings back the tasks that a killed call had begun', async () => {
    const { once, own, seen } = await setup();
    const sent = await once.push(note, { n: 7 });
    await own.pool
      .query(`insert into outlast_worker (id, process, host, pid, lease_ms, deadline, state)
      values ('gone', 'gone', 'gone', 1, 1000, now() - interval '1 minute', 'open')`);
    await own.pool.query(
      `update outlast_task set state = 'running', epoch = 1, run = 'r', owner = 'gone' where id = $1`,
      [sent.id],
    );
    await runOnce(once, { tasks: [once.handler(note, ({ n }) => void seen.push(n))] });
    expect(seen).toEqual([7]);
    expect(await sent.state()).toBe('done');
  });

  it('ends when only tasks without a handler are left, and reports how many', async () => {
    const { once, seen } = await setup();
    const strange = task('api.strange', { input: unchecked<object>() });
    for (let n = 0; n < 3; n += 1) await once.push(strange, {});
    await once.push(note, { n: 1 });
    const handler = once.handler(note, ({ n }) => void seen.push(n));
    expect(await runOnce(once, { tasks: [handler], maxTime: '10m' })).toEqual({
      withoutHandler: 3,
    });
    expect(seen).toEqual([1]);
  });

  it('gives up at its timeout', async () => {
    const { once } = await setup();
    await once.push(note, { n: 1 });
    const never = once.handler(
      note,
      (_, ctx) =>
        new Promise<void>((_resolve, reject) => {
          ctx.softSignal.addEventListener('abort', () => reject(new Error('drained')));
        }),
    );
    await runOnce(once, { tasks: [never], maxTime: '200ms' });
  });

  it('leaves nothing running when it cannot start', async () => {
    const { once, own } = await setup();
    const twice = [1, 2].map(() => once.handler(note, () => undefined));
    await expect(runOnce(once, { tasks: twice })).rejects.toMatchObject({
      code: 'ERR_TASK_DUPLICATE',
    });
    await once.close();
    await until(async () => {
      const { rows } = await own.pool.query<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity where datname = current_database()`,
      );
      return rows[0]?.n === 1;
    });
  });
});

describe('events', () => {
  it('reach listeners until removed or aborted, and a listener that throws changes nothing', async () => {
    const { name, queue } = names();
    const log = memoryLog();
    const told: string[] = [];
    const config = { 'task:started': () => void told.push('config') };
    const own = createOutlast({ database: database.url, log, on: config });
    onTestFinished(() => own.close());
    const ending = new AbortController();
    own.on('task:started', () => {
      throw new Error('sync listener');
    });
    const rejecting = (): unknown => Promise.reject(new Error('async listener'));
    own.on('task:started', rejecting);
    const undo = own.on('task:started', () => void told.push('undone'));
    own.on('task:started', () => void told.push('aborted'), { signal: ending.signal });
    const done = gate();
    own.on('task:done', event => event.name === name && done.open());

    const quick = task(name, { queue });
    const handler = own.handler(quick, () => undefined);
    const worker = await startWorker(own, { tasks: [handler], queues: [queue] });
    try {
      await (await own.push(quick)).result();
      await done.opened;
      expect(told).toEqual(['config', 'undone', 'aborted']);
      undo();
      undo();
      ending.abort();
      await (await own.push(quick)).result();
      expect(told).toEqual(['config', 'undone', 'aborted', 'config']);
    } finally {
      await worker.stop();
    }
    const failures = log.lines.filter(line => line.includes('a listener failed'));
    expect(failures).toHaveLength(4);
  });
});

describe('a handle', () => {
  it('reports the state of the task at the timeout', async () => {
    const { name } = names();
    const sent = await outlast.transaction(tx => outlast.send(tx, task(name)));
    await expect(sent.result({ timeout: '20ms' })).rejects.toMatchObject({
      code: 'ERR_RESULT_TIMEOUT',
      id: sent.id,
      state: 'waiting',
    });
    await expect(sent.result({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
  });

  it('can be recreated from the id, in any process', async () => {
    const { name, queue } = names();
    const contract = task(name, { queue, result: z.object({ n: z.number().transform(String) }) });
    const { id } = await outlast.push(contract);
    const elsewhere = createOutlast({ database: database.url });
    onTestFinished(() => elsewhere.close());
    const found = elsewhere.find(contract, id);
    expect({ id: found.id, name: found.name, isNew: found.isNew }).toEqual({
      id,
      name,
      isNew: false,
    });
    expect(await found.state()).toBe('waiting');
    const handler = outlast.handler(contract, () => ({ n: 1 }));
    const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
    expect(await found.result()).toEqual({ n: '1' });
    await worker.stop();
    expect(await elsewhere.find(contract, 'nobody').state()).toBe('unknown');
    // Celery takes any text for an id.
    expect(await elsewhere.find(contract, 'an id').state()).toBe('unknown');
    expect(() => elsewhere.find(contract, 'an\nid')).toThrow(
      expect.objectContaining({ code: 'ERR_NAME_UNSAFE' }) as Error,
    );
  });

  it('cancels a task that has not begun', async () => {
    const { name } = names();
    const sent = await outlast.push(task(name));
    await sent.cancel();
    await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_CANCELLED' });
  });
});

describe('an instance', () => {
  it('without an adapter has its own transactions, and another library can join them', async () => {
    const { name } = names();
    const own = createOutlast({ database: database.url });
    onTestFinished(() => own.close());
    const contract = task(name);
    const sent = await own.transaction(async tx => {
      const rows = await tx.query('select $1::text as word', ['x']);
      expect(rows).toEqual([{ word: 'x' }]);
      return await own.send(tx, contract);
    });
    const viaPg = own.via(fromPg(database.pool));
    const client = await database.pool.connect();
    await client.query('BEGIN');
    const joined = await viaPg.send(client, contract);
    await client.query('ROLLBACK');
    client.release();
    expect(await sent.state()).toBe('waiting');
    expect(await joined.state()).toBe('unknown');
    await expect(own.send({ query: () => Promise.resolve([]) }, contract)).rejects.toMatchObject({
      code: 'ERR_NOT_IN_TRANSACTION',
    });
  });

  it('may be closed twice, and leaves the connections of the application open', async () => {
    const own = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
    await own.push(task(names().name));
    await Promise.all([own.close(), own.close(), own[Symbol.asyncDispose]()]);
    expect((await database.pool.query('select 1')).rowCount).toBe(1);
  });
});

describe('createAdmin', () => {
  it('counts, inspects, cancels and retries', async () => {
    const { name, queue } = names();
    const admin = createAdmin(outlast);
    const contract = task(name, { queue });
    const handler = outlast.handler(contract, {
      retry: { maxAttempts: 1 },
      run: () => {
        throw new Error('not today');
      },
    });
    const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
    const { id } = await outlast.push(contract);
    const letter = await until(() => admin.deadLetters.show(id));
    await worker.stop();
    expect(letter).toMatchObject({ id, name, queue, where: 'worker', error: 'not today' });
    const first = (await admin.deadLetters.list({ limit: 1 })).items[0];
    expect(first?.id).toBe(id);
    expect((await admin.stats({ top: 1_000 })).topFailing).toContainEqual({ name, failures: 1 });
    expect(await admin.deadLetters.retry(id, letter.version + 1)).toBe('conflict');
    expect(await admin.deadLetters.retry(id)).toBe('ok');
    expect(await admin.deadLetters.retry(id)).toBe('conflict');
    expect(await admin.deadLetters.retry('nobody')).toBe('absent');
    expect(await admin.tasks.inspect(id)).toMatchObject({ state: 'waiting', queue, failures: 0 });
    expect(await admin.tasks.cancel(id)).toBe('ok');
    expect(await admin.tasks.cancel(id)).toBe('ok');
    expect(await admin.tasks.inspect(id)).toMatchObject({ state: 'cancelled' });
    expect(await admin.tasks.inspect('nobody')).toBeNull();
    await expect(admin.deadLetters.list({ cursor: 'junk' })).rejects.toMatchObject({
      code: 'ERR_OPTION_RANGE',
    });
  });
});
