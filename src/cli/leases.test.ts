import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createOutlast } from '../app/create-outlast.ts';
import { CONTEXT } from '../app/outlast.ts';
import type { OutlastConfig } from '../config/config.ts';
import type { Context } from '../context/context.ts';
import { resurrectorSettings } from '../process/resurrector-service.ts';
import { readContext } from './context.ts';

/** Every way to start a service: the commands, including supervisor and `dev`, and the functions for applications. */
async function contextsOf(file: OutlastConfig): Promise<readonly (readonly [string, Context])[]> {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-leases-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = join(folder, 'outlast.config.json');
  writeFileSync(config, JSON.stringify(file));
  const instance = createOutlast(file)[CONTEXT];
  const verb = async (needs: Parameters<typeof readContext>[1]): Promise<Context> =>
    (await readContext({ config }, needs)).context;
  return [
    ['outlast relay', await verb({ section: 'relay' })],
    ['outlast worker', await verb({ section: 'worker', embedded: 'join' })],
    ['outlast resurrector', await verb({ section: 'resurrector', embedded: 'join' })],
    ['outlast dev', await verb({ embedded: 'own', migrates: true })],
    ['createOutlast', instance],
    ['startRelay', instance.forService({ relay: {} })],
    ['startWorker', instance.forService({ worker: { concurrency: 3 } })],
    ['startResurrector', instance.forService({ resurrector: { interval: '1s' } })],
  ];
}

it.each([
  ['an embedded database', { database: 'pglite:./data' }, 30_000],
  ['PostgreSQL', { database: 'postgres://127.0.0.1/shop' }, 5_000],
  ['a ledger in Redis', { database: 'pglite:./data', broker: 'redis://127.0.0.1' }, 5_000],
  ['RabbitMQ', { database: 'pglite:./data', broker: 'amqp://127.0.0.1' }, 30_000],
  ['a configured lease', { database: 'pglite:./data', worker: { lease: '9s' } }, 9_000],
] satisfies [string, OutlastConfig, number][])(
  'every service sees the same lease, however it is started, with %s',
  async (_, file, leaseMs) => {
    const contexts = await contextsOf(file);
    const held = contexts.map(([name, { config }]) => [name, config.worker.leaseMs]);
    const judged = contexts.map(([name, context]) => [name, resurrectorSettings(context).leaseMs]);
    expect(held).toEqual(contexts.map(([name]) => [name, leaseMs]));
    expect(judged).toEqual(held);
    const beats = new Set(contexts.map(([, context]) => resurrectorSettings(context).beatMs));
    expect(beats.size).toBe(1);
  },
);
