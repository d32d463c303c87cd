import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CliProject, json, SHOP, type CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { withDatabase } from '../support/servers.ts';

let database: MigratedDatabase;
let project: CliProject;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  database = await migratedDatabase('cli_daemons');
  await database.pool.query('create table began (id text)');
  await database.pool.query('create table goes_on (id text)');
  env = { OUTLAST_DATABASE_URL: database.url };
  project = new CliProject(SHOP, env);
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

describe('relay, worker and resurrector', () => {
  let relay: CliProcess;
  let worker: CliProcess;
  let resurrector: CliProcess;
  let healthPort: number;

  beforeAll(async () => {
    relay = project.start(['relay', '--idle-time', '0.5']);
    healthPort = await freePort();
    const flags = ['--queues', 'default=2,vip', '--processes', '2'];
    worker = project.start(['worker', ...flags, '--health-port', String(healthPort)]);
    resurrector = project.start(['resurrector', '--json']);
    await Promise.all([relay.says('relay started'), worker.says('worker open')]);
    await resurrector.says('resurrector started');
  });

  it('report the state of the worker to health probes', async () => {
    const ask = (path: string) => fetch(`http://127.0.0.1:${healthPort}${path}`);
    await until(async () => (await ask('/ready')).status === 200);
    expect(await (await ask('/health')).json()).toEqual({
      alive: true,
      ready: true,
      processes: 2,
      ready_processes: 2,
      loading_processes: 0,
      follow_ups_unsent_seconds: null,
      broker_blocked: null,
    });
    expect((await ask('/else')).status).toBe(404);
  });

  it('log the names of the handlers once, though two processes load them', async () => {
    await worker.says('handlers loaded');
    const lines = worker.stderr.split('\n').filter(line => line.includes('handlers loaded'));
    expect(lines).toEqual([expect.stringContaining('"shop.echo"')]);
  });

  it('log nothing of their start and end with --quiet', async () => {
    const port = await freePort();
    const silent = project.start(['relay', '--quiet', '--health-port', String(port)]);
    await until(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => null);
      return answer?.status === 200;
    });
    expect(await silent.stop()).toMatchObject({ code: 0, stderr: '' });
  });

  it('take a task from the command line to its result', async () => {
    const kwargs = '{"n": 12345678901234567890, "camelCase": [1.5]}';
    const sent = await project.run('send', 'shop.echo', '--kwargs', kwargs, '--queue', 'vip');
    const ended = await project.run('result', sent.stdout.trim(), '--wait', '20', '--json');
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain('"result":{"n":12345678901234567890,"camelCase":[1.5]}');
  });

  it('keep a failed task as a dead letter, and run it again on request', async () => {
    await project.run('send', 'shop.fail', '--id', 'f1');
    const failed = await project.run('result', 'f1', '--wait', '20');
    expect(failed.code).toBe(1);
    expect(failed.stdout).toBe('dead: a \\u001b[31mred\\u0007 \\u009b2J error\n');
    // The place where it threw, in the log of the worker and in the dead letter.
    const frame = / at (?:Object\.)?run \(file:.*handlers\.mjs:\d+:\d+\)/;
    expect(worker.stderr).toMatch(new RegExp(`task:failed .*\n {3}${frame.source}`));
    const shown = await project.run('dead-letters', 'show', 'f1');
    expect(shown.stdout).toMatch(new RegExp(`^stack\n  RangeError: .*\n +${frame.source}`, 'm'));
    expect((await project.run('dead-letters', 'retry', 'f1')).code).toBe(0);
    const deaths = async () =>
      json<{ history?: { step: string }[] }>(
        (await project.run('dead-letters', 'show', 'f1', '--json')).stdout || '{}',
      ).history?.filter(({ step }) => step === 'dead').length;
    await until(async () => (await deaths()) === 2);
  });

  it('report that a task was discarded', async () => {
    await project.run('send', 'shop.skip', '--id', 'skipped');
    const ended = await project.run('result', 'skipped', '--wait', '20');
    expect(ended).toMatchObject({ code: 0, stdout: 'discarded: nothing to do\n' });
  });

  it('are counted by stats', async () => {
    const stats = async () =>
      json<{ workers: number }>((await project.run('stats', '--json')).stdout);
    const counted = await until(async () => {
      const now = await stats();
      return now.workers === 2 && now;
    });
    expect(counted).toMatchObject({ queue_depth: 0, dlq_count: 1 });
  });

  it('replace a killed child process, and continue', async () => {
    const { rows } = await database.pool.query<{ pid: number }>(
      `select pid from outlast_worker where state = 'open'`,
    );
    for (const { pid } of rows) process.kill(pid, 'SIGKILL');
    await project.run('send', 'shop.order', '--kwargs', '{"orderId":"7"}', '--id', 'o7');
    expect(await project.run('result', 'o7', '--wait', '20')).toMatchObject({
      code: 0,
      stdout: '"order 7"\n',
    });
  });

  it('drain on SIGTERM and exit with 0, silent on stdout', async () => {
    const daemons = [relay, worker, resurrector];
    const ends = await Promise.all(daemons.map(daemon => daemon.stop()));
    expect(ends.map(({ code, signal, stdout }) => ({ code, signal, stdout }))).toEqual(
      daemons.map(() => ({ code: 0, signal: null, stdout: '' })),
    );
    expect(ends[0]?.stderr).toContain('relay stopped');
    expect(ends[1]?.stderr).toContain('worker stopped');
    const lines = (ends[2]?.stderr ?? '').trim().split('\n');
    expect(lines.map(line => json<{ message: string }>(line).message).at(-1)).toBe(
      'resurrector stopped',
    );
    const { stdout } = await project.run('stats', '--json');
    expect(json(stdout)).toMatchObject({ workers: 0, tasks: { running: 0 } });
  });
});

/** A handler that reports its start, and ends when the test allows it. */
const GATED: Readonly<Record<string, string>> = {
  'outlast.config.ts': `
    import { defineConfig, type OutlastConfig } from 'outlast';
    const config: OutlastConfig = defineConfig({ tasks: ['./src/*'], worker: { queues: ['ts'] } });
    export default config;`,
  'src/handlers.ts': `
    import pg from 'pg';
    import { createOutlast, task } from 'outlast';
    import { fromPg } from 'outlast/pg';
    import config from '../outlast.config.ts';
    import { z } from 'zod';
    const pool = new pg.Pool({ connectionString: process.env['OUTLAST_DATABASE_URL'] });
    const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
    const slow = task('ts.slow', { queue: 'ts', result: z.string() });
    export const slowHandler = outlast.handler(slow, async (_, ctx): Promise<string> => {
      await pool.query('insert into began values ($1)', [ctx.id]);
      for (;;) {
        const { rowCount } = await pool.query('select 1 from goes_on where id = $1', [ctx.id]);
        if (rowCount) return 'done' as string;
        await new Promise(resolve => setTimeout(resolve, 20));
      }
    });`,
};

describe('a project in TypeScript', () => {
  let typed: CliProject;

  beforeAll(() => {
    typed = new CliProject(GATED, env);
  });

  afterAll(async () => {
    await typed.dispose();
  });

  it('runs without a build, and a drain lets the running task finish', async () => {
    const worker = typed.start(['worker']);
    await typed.run('send', 'ts.slow', '--id', 'slow');
    await typed.run('relay', '--drain');
    await until(async () => (await database.pool.query('select from began')).rowCount === 1);
    const running = await typed.run('result', 'slow');
    expect(running).toMatchObject({ code: 7, stdout: 'running\n' });
    worker.signal('SIGTERM');
    await worker.says('draining');
    await database.pool.query(`insert into goes_on values ('slow')`);
    expect(await worker.ended).toMatchObject({ code: 0, signal: null });
    const done = await typed.run('result', 'slow');
    expect(done).toMatchObject({ code: 0, stdout: '"done"\n' });
  });
});

describe('a worker that gets the signal to end twice', () => {
  it('exits at once, and its processes release the tasks they run', async () => {
    const typed = new CliProject(GATED, env);
    onTestFinished(() => typed.dispose());
    const worker = typed.start(['worker']);
    await typed.run('send', 'ts.slow', '--id', 'given-back');
    await typed.run('relay', '--drain');
    const began = `select from began where id = 'given-back'`;
    await until(async () => (await database.pool.query(began)).rowCount);
    worker.signal('SIGTERM');
    await worker.says('draining');
    // Signals in quick succession count as one.
    await until(async () => {
      worker.signal('SIGTERM');
      return worker.child.exitCode ?? worker.child.signalCode;
    });
    expect(await worker.ended).toMatchObject({ code: 143 });
    const back = `select crashes, failures from outlast_task where id = 'given-back' and state = 'waiting'`;
    const row = await until(async () => (await database.pool.query(back)).rows[0] as unknown);
    expect(row).toEqual({ crashes: 0, failures: 0 });
  });
});

describe('a worker', () => {
  it('without a config fails with ERR_CONFIG_LOAD, and the message shows what to write', async () => {
    const bare = new CliProject({}, env);
    const ended = await bare.run('worker');
    await bare.dispose();
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain('ERR_CONFIG_LOAD');
    expect(ended.stderr).toContain("defineConfig({ tasks: ['./src/handlers/*'] })");
  });

  it.each([
    [
      'throws while it loads',
      `\nfunction read() { throw new Error('boom'); }\nread();`,
      'ERR_HANDLER_NOT_LOADABLE',
      'boom, at /FOLDER/handlers.mjs:2:',
    ],
    [
      'throws while it loads, for its frames,',
      `\nfunction read() { throw new Error('boom'); }\nread();`,
      'ERR_HANDLER_NOT_LOADABLE',
      '\n       at read (file:///FOLDER/handlers.mjs:2:',
    ],
    [
      'is no JavaScript',
      `export const a = 1;\n\nexport const b = {;`,
      'ERR_HANDLER_NOT_LOADABLE',
      ', at /FOLDER/handlers.mjs:3',
    ],
    [
      'asks for an export that is not there',
      `export const a = 1;\nimport { nope } from './outlast.config.mjs';`,
      'ERR_HANDLER_NOT_LOADABLE',
      ', at /FOLDER/handlers.mjs:2',
    ],
    [
      'has two handlers of one task',
      `import { createOutlast, task } from 'outlast';
       const outlast = createOutlast();
       export const a = outlast.handler(task('twice'), () => undefined);
       export const b = outlast.handler(task('twice'), () => undefined);`,
      'ERR_TASK_DUPLICATE',
      'twice has two handlers, in ',
    ],
    [
      'has timeouts that contradict each other',
      `import { createOutlast, task } from 'outlast';
       const late = task('late', { timeout: '1s', softTimeout: '2s' });
       export const handler = createOutlast().handler(late, () => undefined);`,
      'ERR_HANDLER_NOT_LOADABLE',
      'Lower `softTimeout`',
    ],
  ])('whose module %s ends at once with the reason', async (_, handlers, code, names) => {
    const config = `export default { tasks: ['./handlers.mjs'] };`;
    const files = { 'outlast.config.mjs': config, 'handlers.mjs': handlers };
    const broken = new CliProject(files, env);
    const ended = await broken.run('worker');
    await broken.dispose();
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(code);
    expect(ended.stderr.replaceAll(broken.folder, '/FOLDER')).toContain(names);
  });

  it('continues when the reader of its log has closed the pipe', async () => {
    const worker = project.start(['worker', '--verbose']);
    await worker.says('worker open');
    worker.child.stdout?.destroy();
    worker.child.stderr?.destroy();
    await project.run('send', 'shop.fail', '--id', 'unread');
    await project.run('relay', '--drain');
    expect((await project.run('result', 'unread', '--wait', '20')).code).toBe(1);
    const { stdout } = await project.run('dead-letters', 'show', 'unread', '--json');
    expect(stdout).not.toContain('"step":"reaped"');
    expect(await worker.stop()).toMatchObject({ code: 0, signal: null });
  });
});

describe('a daemon', () => {
  it('whose database has no tables exits with 1 and a hint', async () => {
    const bare = await withDatabase('cli_bare');
    onTestFinished(() => bare.drop());
    for (const verb of ['relay', 'worker', 'resurrector']) {
      const ended = await project.runWith({ OUTLAST_DATABASE_URL: bare.url }, verb);
      expect(ended).toMatchObject({ code: 1, stdout: '' });
      expect(ended.stderr).toContain('Run: npx outlast migrate');
    }
  });

  it('drains on SIGINT as well', async () => {
    const relay = project.start(['relay']);
    await relay.says('relay started');
    expect(await relay.stop('SIGINT')).toMatchObject({ code: 0, signal: null });
  });
});
