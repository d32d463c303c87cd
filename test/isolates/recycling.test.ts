import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { CliProcess } from '../support/cli-project.ts';
import { until } from '../support/database.ts';
import { isAlive, IsolatesKit, type Mode, type RanIn } from './isolates-kit.ts';

let kit: IsolatesKit;
let worker: CliProcess | undefined;

beforeAll(async () => {
  kit = await IsolatesKit.create();
});

afterEach(async () => {
  await worker?.stop();
});

afterAll(async () => {
  await kit.dispose();
});

const run = async (mode: Mode, deed: string): Promise<RanIn> =>
  await (await kit.push<RanIn>(mode, { deed })).result();

describe('a worker process', () => {
  it('that has run its number of tasks is replaced, and its running tasks finish in it', async () => {
    worker = kit.worker({ OUTLAST_WORKER_MAX_TASKS: '3' });
    const long = await kit.push(`inline`, { deed: 'waits' });
    const old = await kit.runnerOf(long.id);
    await run('inline', 'where');
    await run('inline', 'where');
    await worker.says('a worker process is replaced');
    const next = await until(async () => {
      const { pid } = await run('inline', 'where');
      return pid !== old && pid;
    });
    expect(next).not.toBe(old);
    // The old process stays for its long task, and is not stopped early.
    expect(isAlive(old)).toBe(true);
    expect(await long.state()).toBe('running');
    expect((await worker.stop()).code).toBe(0);
    expect(await long.result()).toEqual({ heeded: true });
    const text = 'select epoch, crashes, failures from outlast_task where id = $1';
    const { rows } = await kit.database.pool.query<object>(text, [long.id]);
    expect(rows[0]).toEqual({ epoch: '1', crashes: 0, failures: 0 });
  });

  it('that uses too much memory is replaced, and loses nothing', async () => {
    worker = kit.worker({ OUTLAST_WORKER_MAX_MEMORY_MB: '300' });
    const pids = new Set<number>();
    await until(async () => {
      pids.add((await run('inline', 'hoard')).pid);
      return pids.size === 2;
    });
    expect(worker.stderr).toContain('it has grown to');
    const text = `select count(*) as n from outlast_task where crashes > 0 or failures > 0`;
    const { rows } = await kit.database.pool.query<{ n: string }>(text);
    expect(rows[0]?.n).toBe('0');
  });

  it('replaces a handler process that uses too much memory, and stays itself', async () => {
    worker = kit.worker({ OUTLAST_WORKER_MAX_MEMORY_MB: '400' });
    const { pid: home } = await run('inline', 'where');
    const pids = new Set<number>();
    await until(async () => {
      pids.add((await run('process', 'hoard')).pid);
      return pids.size === 2;
    });
    const [first = 0] = pids;
    await until(async () => !isAlive(first));
    expect((await run('inline', 'where')).pid).toBe(home);
  });
});

describe('three seconds of computing under a lease of one', () => {
  const lease = { OUTLAST_WORKER_LEASE: '1s', OUTLAST_WORKER_BEAT: '200ms' };

  it.each(['inline', 'thread', 'process'] as const)('do not count as a death: %s', async mode => {
    worker = kit.worker(lease);
    const sent = await kit.push(mode, { deed: 'busy', ms: 3_000 });
    expect(await sent.result()).toEqual({ epoch: 1, resurrections: 0 });
    expect(worker.stderr).not.toContain('worker:lost');
  });
});
