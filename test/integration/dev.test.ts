import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { createServer as createHttpServer, request, type ServerResponse } from 'node:http';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openEmbedded } from '../../src/adapters/pglite/open-embedded.ts';
import type { TaskView } from '../../src/dev/view.ts';
import { DevProcess, isAlive, outlast, ROOT, type StartOptions } from '../support/dev-process.ts';
import { withDatabase } from '../support/servers.ts';

const labels = (task: TaskView): readonly string[] => task.stations.map(({ label }) => label);
const isDone = (task: TaskView): boolean => task.state === 'done';
const isRunning = (task: TaskView): boolean => task.state === 'running';
const stepOf = (task: TaskView): number =>
  task.progress?.kind === 'steps' ? task.progress.step : -1;
/** In the middle: begun, and not at the first step any more. */
const isHalfway = (task: TaskView): boolean => isRunning(task) && stepOf(task) >= 1;

async function makeFolder(): Promise<string> {
  return await mkdtemp(join(tmpdir(), 'outlast-dev-'));
}

/** One process for all tests that do not end it: the first start of a database takes seconds. */
describe('outlast dev', () => {
  let folder: string;
  let dev: DevProcess;

  beforeAll(async () => {
    folder = await makeFolder();
    dev = await DevProcess.start(folder);
  });
  afterAll(async () => {
    await dev.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it('prints the address of the page and nothing else on stdout', async () => {
    expect(dev.stdout).toBe(`Outlast dev is running at ${dev.address}\n`);
    expect(dev.address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const page = await fetch(dev.address);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).toContain('Sample shop');
  });

  it('runs the task of an order to its end', async () => {
    const { taskId } = await dev.order();
    const task = await dev.untilTask(taskId, 'done', isDone);
    expect(labels(task)).toEqual(['Committed', 'Ran', 'Done']);
    expect(task).toMatchObject({ epoch: 1, crashes: 0, failures: 0, receipts: 1 });
  });

  it('leaves no order and no task of a rolled-back transaction', async () => {
    const rolled = await dev.order({ rollBack: true });
    expect(rolled).toMatchObject({ message: 'Rolled back: no order, no task.', left: 0 });
    // A later send reaches the relay later: if there had been a task, it would be here by now.
    const { taskId } = await dev.order();
    await dev.untilTask(taskId, 'running', isRunning);
    const { tasks } = await dev.state();
    expect(tasks.map(task => task.id)).not.toContain(rolled.taskId);
    expect((await outlast(folder, 'result', rolled.taskId)).code).toBe(3);
  });

  it('brings back the task of a killed worker from its checkpoint, with one receipt', async () => {
    const { taskId } = await dev.order();
    const before = await dev.untilTask(taskId, 'halfway', isHalfway);
    const killed = (await (await dev.post('/api/workers/kill', {})).json()) as { pid: number };
    const back = await dev.untilTask(taskId, 'brought back', task => task.epoch === 2);
    expect(labels(back)).toEqual(expect.arrayContaining(['Committed', 'Ran', 'Brought back']));
    expect(back.crashes).toBe(1);
    expect(stepOf(back)).toBeGreaterThanOrEqual(stepOf(before));
    const done = await dev.untilTask(taskId, 'done', isDone);
    expect(labels(done)).toEqual(['Committed', 'Ran', 'Brought back', 'Ran', 'Done']);
    expect(done).toMatchObject({ epoch: 2, crashes: 1, receipts: 1 });
    expect(isAlive(killed.pid)).toBe(false);
    const { workers } = await dev.until('two workers', snapshot => snapshot.workers.length === 2);
    expect(workers.map(({ pid }) => pid)).not.toContain(killed.pid);
  });

  it('keeps one receipt when the worker dies after the receipt was written', async () => {
    const { taskId } = await dev.order();
    await dev.untilTask(taskId, 'past its effect', task => isRunning(task) && task.receipts === 1);
    await dev.post('/api/workers/kill', {});
    const done = await dev.untilTask(taskId, 'done', isDone);
    expect(done).toMatchObject({ epoch: 2, crashes: 1, receipts: 1 });
  });

  it('turns an order that fails three times into a dead letter, and runs it again once', async () => {
    const { taskId } = await dev.order({ card: 'declined' });
    const dead = await dev.untilTask(taskId, 'dead', task => task.state === 'dead');
    expect(dead).toMatchObject({ failures: 3, receipts: 0 });
    const retry = { id: taskId, version: dead.deadVersion };
    expect((await dev.post('/api/tasks/retry', retry)).status).toBe(200);
    expect((await dev.post('/api/tasks/retry', retry)).status).toBe(409);
    expect(labels(await dev.untilTask(taskId, 'done', isDone))).toContain('Retried');
  });

  it('refuses a second start on the same folder', async () => {
    const second = await outlast(folder, 'dev', '--port', '0');
    expect(second.code).toBe(4);
    expect(second.stdout).toBe('');
    expect(second.stderr).toContain('ERR_FOLDER_HELD');
    expect(second.stderr).toContain(`held by process ${dev.pid}`);
  });

  it('gives its workers the lease of an embedded database, which reapers use', async () => {
    const db = await openEmbedded(join(folder, '.outlast'), { mode: 'join' });
    onTestFinished(() => db.close());
    await vi.waitFor(
      async () => {
        const leases = await db.query(
          `select lease_ms from outlast_worker where state = 'open'`,
          [],
        );
        expect(leases).toEqual([{ lease_ms: 30_000 }, { lease_ms: 30_000 }]);
      },
      { timeout: 150_000 },
    );
  });

  it('lets the other commands work in its folder', async () => {
    const { orderId } = await dev.order();
    const kwargs = JSON.stringify({ orderId });
    const sent = await outlast(
      folder,
      'send',
      'shop.send-receipt',
      '--kwargs',
      kwargs,
      '--id',
      'mine',
    );
    expect(sent).toMatchObject({ code: 0, stdout: 'mine\n' });
    const stats = await outlast(folder, 'stats', '--json');
    expect(stats.code).toBe(0);
    expect(JSON.parse(stats.stdout)).toMatchObject({ workers: 2 });
    const result = await outlast(folder, 'result', 'mine', '--wait', '30');
    expect(result.code).toBe(0);
    expect(result.stdout).toMatch(/^\{"receipt":"\d+"\}\n$/);
  });

  describe('the page', () => {
    it('refuses requests from other sites', async () => {
      const foreign = [
        { origin: 'https://example.com' },
        { origin: 'http://127.0.0.1:1' },
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'same-site' },
      ];
      for (const headers of foreign) {
        expect((await dev.post('/api/orders', {}, headers)).status).toBe(403);
      }
    });

    it('refuses forms', async () => {
      const headers = { 'content-type': 'text/plain' };
      expect((await dev.post('/api/workers/kill', {}, headers)).status).toBe(415);
    });

    it('refuses requests without an origin', async () => {
      expect(
        await rawStatus({ method: 'POST', headers: { 'content-type': 'application/json' } }),
      ).toBe(403);
    });

    it('refuses other host names', async () => {
      expect(await rawStatus({ headers: { host: 'rebound.example' } })).toBe(403);
      expect(await rawStatus({ headers: { host: 'localhost.example' } })).toBe(403);
      expect(await rawStatus({ headers: { host: 'localhost' } })).toBe(200);
    });

    it('changes nothing on GET', async () => {
      expect((await fetch(`${dev.address}/api/workers/kill`)).status).toBe(404);
    });

    it('refuses requests that are not a valid order', async () => {
      for (const body of [
        { item: 'gold' },
        { customer: '' },
        { customer: 'A\u0000' },
        { card: 1 },
      ]) {
        const answer = await dev.post('/api/orders', { customer: 'Ada', item: 'kite', ...body });
        expect(answer.status).toBe(400);
      }
      expect((await dev.post('/api/orders', { customer: 'A'.repeat(20_000) })).status).toBe(413);
    });

    it('kills only its own workers', async () => {
      expect((await dev.post('/api/workers/kill', { pid: process.pid })).status).toBe(404);
    });

    it('shows names as they were written', async () => {
      const customer = '<img src=x onerror=alert(1)>';
      const { taskId } = await dev.order({ customer });
      const { title } = await dev.untilTask(taskId, 'shown', () => true);
      expect(title).toContain(customer);
    });

    /** fetch sets some headers itself and forbids others. */
    function rawStatus(options: {
      method?: string;
      headers: Record<string, string>;
    }): Promise<number> {
      const path = options.method === 'POST' ? '/api/orders' : '/api/state';
      return new Promise((resolve, reject) => {
        const asked = request(`${dev.address}${path}`, options, answer => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        asked.on('error', reject).end(options.method === 'POST' ? '{}' : undefined);
      });
    }
  });
});

/** What ends the process. The folder is shared: each test starts anew on it. */
describe('outlast dev, from start to stop', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await makeFolder();
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  async function start(options?: StartOptions): Promise<DevProcess> {
    const dev = await DevProcess.start(folder, options);
    onTestFinished(() => dev.stop());
    return dev;
  }

  it('reports that a port is taken and uses the next', async () => {
    const server = createServer();
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const dev = await start({ args: ['--port', String(port)] });
    const used = Number(new URL(dev.address).port);
    expect(used).toBeGreaterThan(port);
    expect(dev.stderr).toContain(`port ${port} is taken, using ${used}`);
  });

  it('refuses an invalid port', async () => {
    const refused = await outlast(folder, 'dev', '--port', '99999');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('ERR_OPTION_RANGE');
  });

  it('finishes running tasks on SIGINT, exits with 0 and leaves no process', async () => {
    const dev = await start();
    const { taskId } = await dev.order();
    await dev.untilTask(taskId, 'running', isRunning);
    const { workers } = await dev.state();
    dev.signal('SIGINT');
    const draining = await dev.until('draining', ({ isDraining }) => isDraining);
    expect(draining.tasks.find(task => task.id === taskId)?.state).toBe('running');
    const { code, stderr } = await dev.ended;
    expect(code).toBe(0);
    expect(stderr).toContain('draining');
    expect(workers.map(({ pid }) => isAlive(pid))).toEqual([false, false]);
    const result = await outlast(folder, 'result', taskId, '--json');
    expect(JSON.parse(result.stdout)).toMatchObject({ state: 'done' });
  });

  it('loses nothing when it is killed, and its workers exit by themselves', async () => {
    const first = await start();
    const { taskId } = await first.order();
    await first.untilTask(taskId, 'halfway', isHalfway);
    const orphans = (await first.state()).workers.map(({ pid }) => pid);
    first.signal('SIGKILL');
    await first.ended;
    const second = await start();
    await vi.waitFor(() => expect(orphans.filter(isAlive)).toEqual([]), { timeout: 150_000 });
    const done = await second.untilTask(taskId, 'done', isDone);
    expect(done.receipts).toBe(1);
  });

  it('exits at once on the second signal, and its workers follow', async () => {
    const dev = await start();
    const { taskId } = await dev.order();
    await dev.untilTask(taskId, 'running', isRunning);
    dev.signal('SIGINT');
    // One press of Ctrl-C may come as two signals; only one that comes later is a second press.
    await dev.untilTask(taskId, 'two steps further', task => stepOf(task) >= 2);
    dev.signal('SIGINT');
    expect((await dev.ended).code).toBe(130);
    const again = await start();
    await again.untilTask(taskId, 'done', isDone);
  });
});

describe("outlast dev on a project's own tasks", () => {
  it('runs those tasks and shows no shop', async () => {
    const folder = await makeProject();
    const dev = await DevProcess.start(folder);
    onTestFinished(async () => {
      await dev.stop();
      await rm(folder, { recursive: true, force: true });
    });
    expect(await (await fetch(dev.address)).text()).not.toContain('Sample shop');
    expect((await dev.post('/api/orders', { customer: 'Ada', item: 'kite' })).status).toBe(404);
    const sent = await outlast(
      folder,
      'send',
      'own.greet',
      '--kwargs',
      '{"name":"Ada"}',
      '--id',
      'g1',
    );
    expect(sent.code).toBe(0);
    const task = await dev.untilTask('g1', 'done', isDone);
    expect(task).toMatchObject({ name: 'own.greet', title: null, receipts: null });
    expect((await outlast(folder, 'result', 'g1')).stdout).toBe('"hello Ada"\n');
  });

  it('loads handlers again when their files change, lets running tasks end, and keeps code that works', async () => {
    const folder = await makeProject();
    // A task that lasts as long as this server does not answer.
    const held: ServerResponse[] = [];
    const server = createHttpServer((_, response) => void held.push(response)).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
    await mkdir(join(folder, 'words'));
    const word = join(folder, 'words/word.mjs');
    await writeFile(word, `export const word = 'hello';`);
    await writeFile(
      join(folder, 'tasks.mjs'),
      `import { createOutlast, task, unchecked } from 'outlast';
       import { word } from './words/word.mjs';
       const [greet, hold] = ['greet', 'hold'].map(name => task('own.' + name, { input: unchecked(), result: unchecked() }));
       const outlast = createOutlast();
       export const greetHandler = outlast.handler(greet, ({ name }) => word + ' ' + name);
       export const holdHandler = outlast.handler(hold, async ({ url }) => { await fetch(url); return word; });`,
    );
    // `send` reads the contracts of a configuration that names handlers: it would see the broken file too.
    const sender = join(folder, 'sender');
    await mkdir(sender);
    await writeFile(join(sender, 'outlast.config.json'), '{"database":"pglite:../.outlast"}');
    const dev = await DevProcess.start(folder);
    onTestFinished(async () => {
      server.closeAllConnections();
      server.close();
      await dev.stop();
      await rm(folder, { recursive: true, force: true });
    });
    let sends = 0;
    const greet = async (): Promise<string> => {
      const id = `greet-${++sends}`;
      const args = ['own.greet', '--kwargs', '{"name":"Ada"}', '--id', id];
      expect(await outlast(sender, 'send', ...args)).toMatchObject({ code: 0, stderr: '' });
      return (await outlast(folder, 'result', id, '--wait', '60')).stdout;
    };
    expect(await greet()).toBe('"hello Ada"\n');
    const { port } = server.address() as AddressInfo;
    const input = JSON.stringify({ url: `http://127.0.0.1:${port}` });
    const holding = once(server, 'request');
    await outlast(folder, 'send', 'own.hold', '--kwargs', input, '--id', 'hold');
    await holding;

    await writeFile(word, `export const word = ;`);
    await dev.says('the changed files do not load');
    expect(dev.stderr).toContain("Unexpected token ';'");
    expect(await greet()).toBe('"hello Ada"\n');

    await writeFile(word, `export const word = 'bonjour';`);
    await dev.says('files have changed: workers load them');
    // The order to take nothing more may be on its way to the old process.
    await vi.waitUntil(async () => (await greet()) === '"bonjour Ada"\n', { timeout: 60_000 });
    held[0]?.end();
    const ended = await outlast(folder, 'result', 'hold', '--wait', '60');
    expect(ended.stdout).toBe('"hello"\n');
    await dev.untilTask('hold', 'done in its first run', task => isDone(task) && task.epoch === 1);
  });

  async function makeProject(): Promise<string> {
    const folder = await makeFolder();
    await mkdir(join(folder, 'node_modules'));
    await symlink(ROOT, join(folder, 'node_modules/outlast'));
    await writeFile(
      join(folder, 'outlast.config.mjs'),
      `export default { tasks: ['./tasks.mjs'] };`,
    );
    await writeFile(
      join(folder, 'tasks.mjs'),
      `import { createOutlast, task, unchecked } from 'outlast';
       const greet = task('own.greet', { input: unchecked(), result: unchecked() });
       export const greetHandler = createOutlast().handler(greet, ({ name }) => 'hello ' + name);`,
    );
    return folder;
  }
});

describe('outlast dev on a PostgreSQL server', () => {
  it.skipIf(process.env['OUTLAST_TEST_POSTGRES_URL'] === undefined)(
    'brings back the task of a killed worker there too, and shows no password',
    async () => {
      const folder = await makeFolder();
      const database = await withDatabase('dev');
      const url = new URL(database.url);
      url.password ||= 'a-secret';
      const dev = await DevProcess.start(folder, { env: { OUTLAST_DATABASE_URL: url.href } });
      onTestFinished(async () => {
        await dev.stop();
        await database.drop();
        await rm(folder, { recursive: true, force: true });
      });
      const { taskId } = await dev.order();
      await dev.untilTask(taskId, 'halfway', isHalfway);
      await dev.post('/api/workers/kill', {});
      const done = await dev.untilTask(taskId, 'done', isDone);
      expect(done).toMatchObject({ epoch: 2, crashes: 1, receipts: 1 });
      expect(JSON.stringify(await dev.state()) + dev.stderr).not.toContain(url.password);
    },
  );
});
