import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CliProcess } from '../support/cli-project.ts';
import { task, unchecked } from '../../dist/index.js';
import { until } from '../support/database.ts';
import { isAlive, IsolatesKit, type Mode, type RanIn } from './isolates-kit.ts';

const MODES = ['thread', 'process'] as const;

let kit: IsolatesKit;
let worker: CliProcess;

beforeAll(async () => {
  kit = await IsolatesKit.create();
  worker = kit.worker();
  await worker.says('worker open');
});

afterAll(async () => {
  await kit.dispose();
});

const where = async (mode: Mode): Promise<RanIn> =>
  await (await kit.push<RanIn>(mode, { deed: 'where' })).result();

describe.each(MODES)('a handler in its own %s', mode => {
  it('runs there, and has the whole context', async () => {
    const deadline = new Date(Date.now() + 3_600_000);
    const sent = await kit.push<RanIn & Record<string, unknown>>(
      mode,
      { deed: 'look', at: '2026-01-02T03:04:05Z' },
      { send: { headers: { region: 'eu' }, deadline } },
    );
    const seen = await sent.result();
    const { pid: home } = await where('inline');
    expect(seen.pid === home).toBe(mode === 'thread');
    expect(seen.isMainThread).toBe(mode === 'process');
    expect(seen).toMatchObject({
      id: sent.id,
      name: `isolates.${mode}`,
      queue: 'isolates',
      headers: { region: 'eu' },
      isParsed: true,
      attempt: 1,
      resurrections: 0,
      epoch: 1,
      fence: 1,
      deadline: deadline.toISOString(),
      signals: [false, false],
      current: sent.id,
    });
  });

  it('finds the checkpoint of the previous attempt', async () => {
    const sent = await kit.push(mode, { deed: 'progress' });
    expect(await sent.result()).toEqual({ page: 7, big: 2n ** 60n });
  });

  it('writes to the log of its worker, with any fields', async () => {
    const { id } = await kit.push(mode, { deed: 'log' });
    await worker.says(id);
    const line = await until(async () =>
      worker.stderr.split('\n').find(text => text.includes(id) && text.includes('a line of mine')),
    );
    expect(JSON.parse(line)).toMatchObject({
      level: 'info',
      message: 'a line of mine',
      task: id,
      error: { name: 'RangeError', message: 'odd' },
    });
  });

  it('has its effect once: the run after a crash gets the value of the step', async () => {
    const sent = await kit.push(mode, { deed: 'effect' });
    expect(await sent.result()).toEqual({ value: 1, epoch: 2, resurrections: 1, attempt: 1 });
    expect(await kit.count('effect', sent.id)).toBe(1);
    expect(await kit.count('run', sent.id)).toBe(2);
  });

  it('sends follow-ups inside ctx.transaction', async () => {
    const sent = await kit.push<string>(mode, { deed: 'send' });
    const id = await sent.result();
    expect(id).toBe(`${sent.id}-sent`);
    // The worker moves the row, at some moment, to where workers find it.
    const text = `select task_id from outlast_outbox where task_id = $1 union select id from outlast_task where id = $1`;
    expect((await kit.database.pool.query(text, [id])).rowCount).toBe(1);
  });

  it('returns verdicts as values', async () => {
    const discarded = await kit.push(mode, { deed: 'discards' });
    await expect(discarded.result()).rejects.toMatchObject({ code: 'ERR_TASK_DISCARDED' });
    expect(await (await kit.push(mode, { deed: 'retries' })).result()).toBe(2);
  });

  it('passes the original error to its retryIf', async () => {
    const { id } = await kit.push(mode, { deed: 'fails' });
    const { reason, history } = await kit.deadLetter(id);
    expect(reason).toBe('ERR_ATTEMPTS_SPENT');
    expect(history.map(({ step }) => step)).toEqual(['arrived', 'begun', 'dead']);
    expect(history.at(-1)?.error).toMatchObject({ type: 'Error', message: 'declined' });
  });

  it.each(['map', 'circle'])('may not return a value that is not JSON: %s', async deed => {
    const { id } = await kit.push(mode, { deed });
    const { reason, history } = await kit.deadLetter(id);
    expect(reason).toBe('ERR_ATTEMPTS_SPENT');
    expect(history.at(-1)?.error?.message).toContain('is not JSON');
  });

  it('gets the soft timeout with the context of the same run', async () => {
    const sent = await kit.push(mode, { deed: 'soft' }, { soft: '50ms' });
    expect(await sent.result()).toEqual({ isSame: true });
  });
});

describe('duplicates of a task in its own thread', () => {
  it('run there once, and all get the result', async () => {
    const keyed = task('isolates.keyed', {
      input: unchecked<{ order: string }>(),
      result: unchecked<RanIn & { readonly id: string }>(),
      queue: 'isolates',
      idempotent: true,
    });
    const sent = await Promise.all([1, 2, 3].map(() => kit.outlast.push(keyed, { order: '17' })));
    const results = await Promise.all(sent.map(handle => handle.result()));
    const [first] = results;
    for (const result of results) expect(result).toEqual(first);
    expect(first?.isMainThread).toBe(false);
    const runs = await Promise.all(sent.map(({ id }) => kit.count('run', id)));
    expect(runs.filter(count => count > 0)).toEqual([1]);
  });
});

describe.each(MODES)('a hard timeout in a %s', mode => {
  it('ends a handler that obeys its signal, and the isolate continues', async () => {
    const before = await where(mode);
    const { id } = await kit.push(mode, { deed: 'heeds' }, { timeout: '300ms' });
    const { reason, history } = await kit.deadLetter(id);
    expect(reason).toBe('ERR_TIMEOUT');
    expect(history.map(({ step }) => step)).toEqual([
      'arrived',
      'begun',
      'failed',
      'begun',
      'dead',
    ]);
    expect(await where(mode)).toEqual(before);
  });

  it('ends an endless loop for good: its attempts are spent, and its neighbours are not affected', async () => {
    const { pid: home } = await where('inline');
    const neighbour = await kit.push(mode, { deed: 'waits' });
    const file = kit.file();
    const sent = await kit.push(mode, { deed: 'endless', file: file.path }, { timeout: '300ms' });
    const { reason, history } = await kit.deadLetter(sent.id);
    expect(reason).toBe('ERR_TIMEOUT');
    expect(history.map(({ step }) => step)).toEqual([
      'arrived',
      'begun',
      'failed',
      'begun',
      'dead',
    ]);
    const size = file.size();
    expect(size).toBeGreaterThan(0);
    // Anything still running would have written more by now.
    expect((await where(mode)).threadId).toBeGreaterThanOrEqual(0);
    expect(file.size()).toBe(size);
    if (mode === 'process') expect(isAlive(await kit.runnerOf(sent.id))).toBe(false);
    expect((await where('inline')).pid).toBe(home);
    expect(await neighbour.state()).toBe('running');
    await neighbour.cancel();
  });
});

describe.each([
  ['thread', 'exits', 'its thread ended with code 3'],
  ['thread', 'loose', 'nobody caught me'],
  ['process', 'exits', 'its process ended with code 3'],
  ['process', 'faults', 'its process ended with SIGSEGV'],
  ['process', 'loose', 'nobody caught me'],
] as const)('a handler that ends its %s (%s)', (mode, deed, message) => {
  it('spends crashes and no attempts, and is dead when the budget is spent', async () => {
    const { pid: home } = await where('inline');
    const sent = await kit.push(mode, { deed });
    await expect(sent.result()).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
      type: 'ERR_RESURRECTIONS_SPENT',
    });
    const { reason, history } = await kit.deadLetter(sent.id);
    expect(reason).toBe('ERR_RESURRECTIONS_SPENT');
    expect(history.map(({ step }) => step)).toEqual([
      'arrived',
      'begun',
      'crashed',
      'begun',
      'dead',
    ]);
    expect(history.at(-1)?.error?.message).toBe(message);
    const text = 'select failures, crashes from outlast_task where id = $1';
    const { rows } = await kit.database.pool.query<object>(text, [sent.id]);
    expect(rows[0]).toEqual({ failures: 0, crashes: 2 });
    // The worker itself is alive, and tasks beside it were not affected.
    expect((await where('inline')).pid).toBe(home);
  });
});

describe.each(MODES)('a cancelled task in a %s', mode => {
  it('is killed when it ignores the signal, and the worker continues', async () => {
    const file = kit.file();
    const sent = await kit.push(mode, { deed: 'endless', file: file.path });
    await until(async () => file.size() > 0);
    await sent.cancel();
    await worker.says(`"task":"${sent.id}","mode":"${mode}","why":"stopped"`);
    await where(mode);
    const size = file.size();
    await where(mode);
    expect(file.size()).toBe(size);
  });
});

describe('more handlers than isolates', () => {
  it('wait for one, and all are run', async () => {
    const sent = await Promise.all(
      MODES.flatMap(mode => [1, 2, 3].map(() => kit.push<RanIn>(mode, { deed: 'busy', ms: 100 }))),
    );
    for (const handle of sent)
      expect(await handle.result()).toMatchObject({ epoch: 1, resurrections: 0 });
  });
});

describe('a killed worker', () => {
  it('ends the processes of its handlers, whatever they are doing', async () => {
    const { pid: home } = await where('inline');
    const file = kit.file();
    const sent = await kit.push('process', { deed: 'endless', file: file.path });
    const isolate = await kit.runnerOf(sent.id);
    expect(isolate).not.toBe(home);
    process.kill(home, 'SIGKILL');
    await until(async () => !isAlive(isolate));
    await sent.cancel();
    expect((await where('inline')).pid).not.toBe(home);
  });
});

describe.each(MODES)('a drain with handlers in a %s', mode => {
  it('lets handlers finish that obey it, and releases the others uncounted', async () => {
    const heeding = await kit.push(mode, { deed: 'waits' });
    const ignoring = await kit.push(mode, { deed: 'ignores' });
    const isolates = [await kit.runnerOf(heeding.id), await kit.runnerOf(ignoring.id)];
    expect((await worker.stop()).code).toBe(0);
    expect(await heeding.state()).toBe('done');
    expect(await ignoring.state()).toBe('waiting');
    expect(isolates.filter(isAlive)).toEqual([]);
    worker = kit.worker();
    expect(await ignoring.result()).toEqual({ attempt: 1, resurrections: 0 });
    await worker.says('worker open');
  });
});
