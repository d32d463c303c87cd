import { expect, it, onTestFinished } from 'vitest';
import { createOutlast, task, unchecked } from '../../dist/index.js';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';

const SECRET = 'marker-5e7c1a';

/** It is in arguments, in a header, in what a schema quotes, and in the URL that an exception quotes. */
const FILES = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    const hide = value => (typeof value === 'string' ? '***' : value);
    export default defineConfig({
      tasks: ['./handlers.mjs'],
      redact: ({ args, kwargs }) => ({
        args: args.map(hide),
        kwargs: Object.fromEntries(Object.entries(kwargs).map(([key, value]) => [key, hide(value)])),
      }),
    });`,
  'handlers.mjs': `
    import { createOutlast, task, unchecked } from 'outlast';
    import config from './outlast.config.mjs';
    const outlast = createOutlast(config);
    const quotes = { '~standard': { version: 1, vendor: 'test', validate: value => ({
      issues: [{ message: 'no ' + JSON.stringify(value) }] }) } };
    const retry = { maxAttempts: 1 };
    export const fails = outlast.handler(task('leaks.fails', { input: unchecked() }), { retry, run: () => {
      throw new Error('no answer of postgres://a@b:x/y${SECRET}@db/shop, nor of amqp://u%40v:p%2F${SECRET}@mq//');
    } });
    export const refuses = outlast.handler(task('leaks.refuses', { input: quotes }), { retry, run: () => undefined });
    export const done = outlast.handler(task('leaks.done', { input: unchecked(), result: unchecked() }), () => '${SECRET}');`,
};

it('no secret of a task, of its errors, of the environment or of a URL is in logs, metrics, letters or the output of commands', async () => {
  const database = await migratedDatabase('no_secrets');
  const user = `"outlast@shop/${Date.now()}"`;
  const password = `p@ss/${SECRET}:?#`;
  await database.pool.query(`create role ${user} superuser login password '${password}'`);
  const url = new URL(database.url);
  const address = `${encodeURIComponent(user.slice(1, -1))}:${encodeURIComponent(password)}@${url.host}`;
  const env = {
    OUTLAST_DATABASE_URL: `postgres://${address}${url.pathname}${url.search}`,
    APP_TOKEN: SECRET,
  };
  const project = new CliProject(FILES, env);
  onTestFinished(async () => {
    await project.dispose();
    await database.pool.query(`drop role ${user}`);
    await database.dispose();
  });
  const port = String(await freePort());
  const worker = project.start(['worker', '--verbose', '--processes', '1', '--health-port', port]);
  await worker.says('worker open');
  const sent = ['leaks.fails', 'leaks.refuses', 'leaks.done'];
  const shown: string[] = [];
  const run = async (...args: readonly string[]): Promise<void> => {
    const { stdout, stderr } = await project.run(...args);
    expect(stdout + stderr).not.toBe('');
    shown.push(`${args.join(' ')}: ${stdout}${stderr}`);
  };
  const outlast = createOutlast({ database: env.OUTLAST_DATABASE_URL });
  await outlast.transaction(async tx => {
    for (const name of sent) {
      const options = { id: name, headers: { 'x-token': SECRET } };
      await outlast.send(tx, task(name, { input: unchecked() }), { token: SECRET }, options);
    }
  });
  await outlast.close();
  await until(
    async () =>
      (await project.run('tasks', 'list', '--state', 'dead', '--json')).stdout.match(/leaks\.\w+/g)
        ?.length === 4,
  );
  await project.run('result', 'leaks.done', '--wait', '30');
  for (const id of sent) {
    await run('tasks', 'inspect', id);
    await run('tasks', 'inspect', id, '--json');
    await run('tasks', 'why', id);
  }
  for (const id of sent.slice(0, 2)) {
    await run('dead-letters', 'show', id);
    await run('dead-letters', 'show', id, '--json');
  }
  await run('tasks', 'list', '--json');
  await run('dead-letters', 'list');
  await run('outbox', 'list');
  await run('stats', '--json');
  await run('doctor', '--json');
  await run('config', 'show');
  await run('config', 'show', '--json');
  shown.push(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  const { stderr } = await worker.stop();
  expect(stderr).toContain('task:dead-lettered');
  shown.push(stderr);
  // Bytes are shown as base64.
  const inBytes = shown.flatMap(text =>
    [...text.matchAll(/"([A-Za-z0-9+/=]{16,})"/g)].map(([, bytes = '']) =>
      Buffer.from(bytes, 'base64').toString(),
    ),
  );
  const hits = [...shown, ...inBytes].filter(text => text.includes(SECRET));
  expect(
    hits.map(hit => hit.slice(Math.max(0, hit.indexOf(SECRET) - 200), hit.indexOf(SECRET) + 60)),
  ).toEqual([]);
});
