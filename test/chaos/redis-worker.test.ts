import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createOutlast,
  startRelay,
  startResurrector,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { EPOCHS_PER_GENERATION } from '../../src/ledger/generation-store.ts';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { faultEnv } from '../support/fault-env.ts';

const shape = { input: unchecked<unknown>(), result: unchecked<number>() };
const effect = task('chaos.effect', shape);
const follow = task('chaos.follow', shape);

const PROJECT = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'], worker: { lease: '3s', beat: '500ms' } });`,
  'handlers.mjs': `
    import { createOutlast, task, unchecked } from 'outlast';
    import config from './outlast.config.mjs';
    const outlast = createOutlast(config);
    const shape = { input: unchecked(), result: unchecked() };
    export const effect = outlast.handler(task('chaos.effect', shape), (_, ctx) => ctx.fence);
    export const follow = outlast.handler(task('chaos.follow', shape), (_, ctx) => ctx.fence);`,
};

let redis: OwnRedis;
let database: MigratedDatabase;
let project: CliProject;
let outlast: Outlast;
let services: Service[];

beforeAll(async () => {
  redis = await startRedis(['--appendonly', 'yes']);
  database = await migratedDatabase('redisworker');
  const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
  project = new CliProject(PROJECT, env);
  outlast = createOutlast({ database: database.url, broker: redis.url });
  services = [
    await startRelay(outlast),
    await startResurrector(outlast, { interval: '100ms', afterDelay: '500ms' }),
  ];
});

afterAll(async () => {
  for (const service of services) await service.stop();
  await outlast.close();
  await project.dispose();
  await database.dispose();
  await redis.dispose();
});

/** The run that committed: one more than the first where that was lost before it was settled. */
const SCENARIOS: readonly { readonly point: FaultPointName; readonly run: number }[] = [
  { point: 'worker.taken-not-begun', run: 1 },
  // Here the copy at the broker is not acknowledged either: it comes back, and the ledger answers for it.
  { point: 'worker.begun-not-started', run: 2 },
  { point: 'worker.ran-not-committed', run: 2 },
  { point: 'worker.committed-not-followed', run: 1 },
];

describe('a worker process with broker and ledger in one Redis', () => {
  it.each(SCENARIOS)('killed at $point loses nothing and commits once', async ({ point, run }) => {
    const hit = join(project.folder, point);
    const { done } = (await createAdmin(outlast).stats()).tasks;
    const fault = faultEnv(`${point}:kill:1:${hit}`);
    const worker = project.start(['worker'], fault);
    const next = { link: follow, id: point };
    const sent = await outlast.transaction(tx => outlast.send(tx, effect, null, next));
    const epoch = await sent.result({ timeout: '60s' });
    expect(epoch % EPOCHS_PER_GENERATION).toBe(run);
    const counts = await until(async () => {
      const { tasks } = await createAdmin(outlast).stats();
      return tasks.done === done + 2 && tasks;
    });
    expect(existsSync(hit)).toBe(true);
    expect(counts).toMatchObject({ waiting: 0, running: 0, dead: 0 });
    expect((await worker.stop()).code).toBe(0);
  });
});
