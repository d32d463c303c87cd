import { execFile, fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openRemoteDatabase } from '../remote/remote-database.ts';
import { serveDatabase } from '../remote/remote-server.ts';
import { acquireFolderLock } from './folder-lock.ts';
import { openPGliteDatabase, type PGliteDatabase } from './pglite-database.ts';
import { openEmbeddedDatabase } from '../../../test/support/embedded.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const HELD = { name: 'ConfigError', code: 'ERR_FOLDER_HELD' };
const UNAVAILABLE = { name: 'UnavailableError', code: 'ERR_STORE_UNAVAILABLE' };

/**
 * Behaviour that only real processes and threads can show. Node 20 runs no TypeScript, so they get
 * it compiled.
 */
describe('processes that share an embedded database', () => {
  let base: string;
  let db: PGliteDatabase;
  let files = 0;

  beforeAll(async () => {
    base = await mkdtemp(join(tmpdir(), 'outlast-processes-'));
    const [opened] = await Promise.all([openEmbeddedDatabase(), compile(base)]);
    db = opened;
  });
  afterAll(async () => {
    await db.close();
    await rm(base, { recursive: true, force: true });
  });

  async function script(code: string): Promise<string> {
    const path = join(base, 'js', `script${++files}.mjs`);
    await writeFile(path, code);
    return path;
  }

  /** Starts a process and waits for its first message. */
  async function start(code: string, ...args: string[]): Promise<Child> {
    const child = new Child(fork(await script(code), args, { execArgv: [] }));
    onTestFinished(() => child.kill('SIGKILL'));
    return child;
  }

  const acquirer = `
    import { acquireFolderLock } from './adapters/pglite/folder-lock.js';
    process.send('ready');
    process.on('message', () => acquireFolderLock(process.argv[2])
      .then(() => process.send('won'), error => process.send(error.code)));
  `;

  async function startHolder(folder: string): Promise<Child> {
    const holder = await start(acquirer, folder);
    expect(await holder.next()).toBe('ready');
    holder.send('go');
    expect(await holder.next()).toBe('won');
    return holder;
  }

  it('gives the folder of a killed holder to the next process', async () => {
    const folder = join(base, 'killed');
    const holder = await startHolder(folder);
    await expect(acquireFolderLock(folder)).rejects.toMatchObject({ ...HELD, pid: holder.pid });
    await holder.kill('SIGKILL');
    await (await acquireFolderLock(folder)).release();
  });

  it('keeps the folder locked while its holder is stopped', async () => {
    const folder = join(base, 'stopped');
    const holder = await startHolder(folder);
    holder.signal('SIGSTOP');
    await expect(acquireFolderLock(folder)).rejects.toMatchObject({ ...HELD, pid: holder.pid });
  });

  it('gives the folder of a killed holder to the next process while the holder is a zombie', async () => {
    const folder = join(base, 'zombie');
    // The shell replaces itself, so no process waits for the child it started.
    const child = await script(`
      import { acquireFolderLock } from './adapters/pglite/folder-lock.js';
      await acquireFolderLock(process.argv[2]);
      process.kill(process.pid, 'SIGKILL');
    `);
    const parent = execFile('/bin/sh', [
      '-c',
      '"$0" "$1" "$2" & exec sleep 60',
      process.execPath,
      child,
      folder,
    ]);
    onTestFinished(() => void parent.kill('SIGKILL'));
    await untilZombie(folder);
    await (await acquireFolderLock(folder)).release();
  });

  it('gives a stale lock to exactly one of twenty processes that start at once', async () => {
    const folder = join(base, 'race');
    await (await startHolder(folder)).kill('SIGKILL');
    const starters = await Promise.all(Array.from({ length: 20 }, () => start(acquirer, folder)));
    await Promise.all(starters.map(starter => starter.next()));
    for (const starter of starters) starter.send('go');
    const outcomes = await Promise.all(starters.map(starter => starter.next()));
    expect(outcomes.filter(outcome => outcome === 'won')).toHaveLength(1);
    expect(outcomes.filter(outcome => outcome === 'ERR_FOLDER_HELD')).toHaveLength(19);
  });

  it('never gives the lock to two processes while many acquire, release and die', async () => {
    const folder = join(base, 'churn');
    await mkdir(folder);
    const inside = join(base, 'inside');
    const churner = `
      import { rmSync, writeFileSync, readFileSync } from 'node:fs';
      import { acquireFolderLock } from './adapters/pglite/folder-lock.js';
      const [, , folder, inside, mayDie] = process.argv;
      const isAlive = pid => {
        try { return !/\\) [ZX] /.test(readFileSync('/proc/' + pid + '/stat', 'utf8')); }
        catch { return false; }
      };
      for (let wins = 0; wins < 40; ) {
        const lock = await acquireFolderLock(folder).catch(error => {
          if (error.code !== 'ERR_FOLDER_HELD') throw error;
        });
        if (lock === undefined) continue;
        wins++;
        let other;
        try { other = Number(readFileSync(inside, 'utf8')); } catch {}
        if (other && isAlive(other)) { process.send('two inside'); break; }
        writeFileSync(inside, String(process.pid));
        await new Promise(setImmediate);
        other = Number(readFileSync(inside, 'utf8'));
        if (other !== process.pid) { process.send('two inside'); break; }
        if (mayDie && wins === 20) process.kill(process.pid, 'SIGKILL');
        rmSync(inside);
        await lock.release();
      }
      process.send('done');
      process.disconnect();
    `;
    const churners = await Promise.all(
      ['', 'yes', '', 'yes', 'yes', ''].map(mayDie => start(churner, folder, inside, mayDie)),
    );
    const messages = await Promise.all(churners.map(child => child.allMessages()));
    expect(messages.flat().sort()).toEqual(['done', 'done', 'done']);
  });

  it('rolls back the transaction of a killed client at once, and other clients go on', async () => {
    await db.query('create table killed_client (id int)');
    const server = await serveDatabase(db);
    onTestFinished(() => server.close());
    const client = await start(
      `
      import { openRemoteDatabase } from './adapters/remote/remote-database.js';
      const [, , port, token] = process.argv;
      await openRemoteDatabase({ port: Number(port), token }).transaction(async tx => {
        await tx.query('insert into killed_client values (1)');
        process.send('inserted');
        await new Promise(() => undefined);
      });
      `,
      String(server.port),
      server.token,
    );
    expect(await client.next()).toBe('inserted');
    const other = openRemoteDatabase(server);
    onTestFinished(() => other.close());
    const waiting = other.query('select count(*)::int as n from killed_client');
    const started = performance.now();
    await client.kill('SIGKILL');
    expect(await waiting).toEqual([{ n: 0 }]);
    // Long before the ten seconds after which any transaction is rolled back.
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('rejects running queries when the serving process is killed', async () => {
    const serving = await start(`
      import { serveDatabase } from './adapters/remote/remote-server.js';
      const query = () => { process.send('asked'); return new Promise(() => undefined); };
      const { port, token } = await serveDatabase({ query });
      process.send(JSON.stringify({ port, token }));
    `);
    const remote = openRemoteDatabase(JSON.parse(await serving.next()) as never);
    onTestFinished(() => remote.close());
    const pending = remote.query('select 1').catch((error: unknown) => error);
    expect(await serving.next()).toBe('asked');
    await serving.kill('SIGKILL');
    expect(await pending).toMatchObject(UNAVAILABLE);
    await expect(remote.query('select 1')).rejects.toMatchObject(UNAVAILABLE);
  });

  it('serves a worker thread like a process', async () => {
    const server = await serveDatabase(db);
    onTestFinished(() => server.close());
    const { port, token } = server;
    const code = await script(`
      import { parentPort, workerData } from 'node:worker_threads';
      import { openRemoteDatabase } from './adapters/remote/remote-database.js';
      const db = openRemoteDatabase(workerData);
      const hinted = new Promise(resolve => db.listen('thread', resolve));
      const bytes = Uint8Array.of(0, 255);
      const [row] = await db.transaction(tx => tx.query('select $1::bytea as b', [bytes]));
      await hinted;
      const error = await db.query('select 1/0').catch(caught => caught);
      await db.close();
      parentPort.postMessage({ bytes: [...row.b], sqlstate: error.code });
    `);
    const worker = new Worker(code, { workerData: { port, token }, execArgv: [] });
    // It ends by itself: a closed client keeps nothing alive.
    const [messages, exit] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
    expect(messages).toEqual([{ bytes: [0, 255], sqlstate: '22012' }]);
    expect(exit).toEqual([0]);
  });

  it('names the npm command when the driver is missing, and creates no folder', async () => {
    const child = await start(
      `
      import { existsSync } from 'node:fs';
      import { openPGliteDatabase } from './adapters/pglite/pglite-database.js';
      const error = await openPGliteDatabase(process.argv[2]).catch(caught => caught);
      const { name, code, install } = error;
      process.send([name, code, install, existsSync(process.argv[2])].join(' | '));
      `,
      join(base, 'driverless'),
    );
    expect(await child.next()).toBe(
      'ConfigError | ERR_DRIVER_MISSING | npm i @electric-sql/pglite | false',
    );
  });

  it('keeps every committed row when the owner is killed', async () => {
    await symlink(join(ROOT, 'node_modules'), join(base, 'node_modules'));
    const folder = join(base, 'survivor');
    const owner = await start(
      `
      import { openEmbedded } from './adapters/pglite/open-embedded.js';
      const db = await openEmbedded(process.argv[2], { mode: 'own', createIfMissing: true });
      await db.query('create table t (id int)');
      for (let id = 1; id <= 20; id++) await db.query('insert into t values ($1)', [id]);
      process.send('committed');
      `,
      folder,
    );
    expect(await owner.next()).toBe('committed');
    await owner.kill('SIGKILL');
    const next = await openPGliteDatabase(folder);
    expect(await next.query('select count(*)::int as n from t')).toEqual([{ n: 20 }]);
    await next.close();
  });
});

/** A process that communicates by messages. */
class Child {
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #messages: string[] = [];
  #onMessage: () => void = () => undefined;

  constructor(child: ChildProcess) {
    this.#process = child;
    this.#exited = once(child, 'exit');
    child.on('message', message => {
      this.#messages.push(message as string);
      this.#onMessage();
    });
    child.on('exit', () => this.#onMessage());
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  send(message: string): void {
    this.#process.send(message);
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /** Resolves when the process is gone. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    this.signal(signal);
    await this.#exited;
  }

  /** The next message; fails when the process ends without one. */
  async next(): Promise<string> {
    while (this.#messages.length === 0) {
      if (this.#process.exitCode !== null) throw new Error('the process ended without a message');
      await new Promise<void>(resolve => (this.#onMessage = resolve));
    }
    return this.#messages.shift() ?? '';
  }

  async allMessages(): Promise<string[]> {
    await this.#exited;
    return this.#messages;
  }
}

/**
 * Compiles what the children import; the folder is outside the repository, so no driver is found
 * from it.
 */
async function compile(base: string): Promise<void> {
  const adapters = join(ROOT, 'src/adapters');
  const config = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      rootDir: join(ROOT, 'src'),
      outDir: join(base, 'js'),
      typeRoots: [join(ROOT, 'node_modules/@types')],
    },
    include: [],
    files: [join(adapters, 'pglite/open-embedded.ts')],
  };
  await writeFile(join(base, 'tsconfig.json'), JSON.stringify(config));
  await mkdir(join(base, 'js'));
  await writeFile(join(base, 'js/package.json'), '{"type":"module"}');
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, '-p', join(base, 'tsconfig.json')]);
}

/** Waits until the holder of the folder has died and its parent has not read its exit code. */
async function untilZombie(folder: string): Promise<void> {
  for (;;) {
    await new Promise(setImmediate);
    const text = await readFile(join(folder, 'lock.1'), 'utf8').catch(() => null);
    if (text === null) continue;
    const { pid } = (JSON.parse(text) as { holder: { pid: number } }).holder;
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A killed process shows Z before its last thread is gone.
    if (state === 'Z' && Number(fields[16]) <= 1) return;
  }
}
