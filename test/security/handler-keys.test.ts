import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startRelay, task, unchecked } from '../../dist/index.js';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { LONG_TIMEOUT } from './intruder.ts';

const SECRET = 'c0ffee42'.repeat(8);

const HANDLERS = `
import { execFileSync } from 'node:child_process';
import { createOutlast, task, unchecked } from 'outlast';

const outlast = createOutlast();
const sent = task('keys.sent', { queue: 'keys', result: unchecked() });

/** What a handler, and a program that it starts, can read; and whether it can send. */
async function look(id) {
  const inherited = execFileSync(process.execPath, ['-e', 'console.log(JSON.stringify(process.env))']);
  const seen = JSON.stringify(process.env) + inherited;
  const sending = await outlast
    .transaction(tx => outlast.send(tx, sent, undefined, { id: id + '-sent' }))
    .then(() => 'sent', error => error.code);
  return { hasKey: seen.includes('${SECRET}'), sending };
}

const handlerOf = mode =>
  outlast.handler(task('keys.' + mode, { queue: 'keys', result: unchecked() }), {
    mode,
    run: (_, ctx) => look(ctx.id),
  });
export const inline = handlerOf('inline');
export const thread = handlerOf('thread');
export const child = handlerOf('process');
export const after = outlast.handler(sent, () => 'ran');
`;

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('keys');
});
afterAll(() => database.dispose());

async function setup(isolateKeys: 'on' | 'off') {
  const env = {
    OUTLAST_DATABASE_URL: database.url,
    OUTLAST_SIGNING_KEYS: `k:${SECRET}`,
    OUTLAST_WORKER_ISOLATE_KEYS: isolateKeys,
  };
  const config = `export default { tasks: ['./handlers.mjs'], worker: { queues: ['keys'], idleTime: '200ms' } };`;
  const project = new CliProject({ 'outlast.config.mjs': config, 'handlers.mjs': HANDLERS }, env);
  const outlast = createOutlast({ database: database.url, signingKeys: [`k:${SECRET}`] });
  const relay = await startRelay(outlast);
  onTestFinished(async () => {
    await project.dispose();
    await relay.stop();
    await outlast.close();
  });
  project.start(['worker']);
  const run = async (mode: string) => {
    const handle = await outlast.push(
      task(`keys.${mode}`, { queue: 'keys', result: unchecked<unknown>() }),
    );
    return { id: handle.id, result: await handle.result(LONG_TIMEOUT) };
  };
  const sent = task('keys.sent', { queue: 'keys', result: unchecked<unknown>() });
  return { run, sentBy: (id: string) => outlast.find(sent, `${id}-sent`).result(LONG_TIMEOUT) };
}

describe('a handler', () => {
  it('has no signing key in its environment, nor have its child processes; inline it sends signed tasks', async () => {
    const { run, sentBy } = await setup('off');
    const { id, result } = await run('inline');
    expect(result).toEqual({ hasKey: false, sending: 'sent' });
    expect(await sentBy(id)).toBe('ran');
    const withheld = { hasKey: false, sending: 'ERR_SIGNING_KEYS_WITHHELD' };
    for (const mode of ['thread', 'process'])
      expect((await run(mode)).result, mode).toEqual(withheld);
  });

  it('in its own thread or process sends where its worker passes it the keys', async () => {
    const { run, sentBy } = await setup('on');
    for (const mode of ['thread', 'process']) {
      const { id, result } = await run(mode);
      expect(result, mode).toEqual({ hasKey: false, sending: 'sent' });
      expect(await sentBy(id)).toBe('ran');
    }
  });
});
