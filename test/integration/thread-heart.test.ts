import { expect, it, onTestFinished } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { ThreadHeart } from '../../dist/wiring/thread-heart.js';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/database.ts';
import { withDatabase } from '../support/servers.ts';

it.each([
  ['PostgreSQL', (port: number) => ({ database: `postgres://127.0.0.1:${port}/none` })],
  [
    'Redis',
    (port: number) => ({
      database: 'postgres://127.0.0.1/none',
      broker: `redis://127.0.0.1:${port}`,
    }),
  ],
])('a heart whose %s is away tries again, and is not ready before it can beat', async (_, at) => {
  const config = resolveConfig({ ...at(await freePort()), worker: { beat: '20ms' } }, {});
  let ended = 0;
  const heart = new ThreadHeart(config, { ...silentLogger, error: () => void (ended += 1) });
  onTestFinished(() => heart.stop());
  let isReady = false;
  void heart.ready().then(() => (isReady = true));
  await until(async () => ended >= 2);
  expect(isReady).toBe(false);
});

it('a heart whose tables are missing leaves it to its worker to say so', async () => {
  const bare = await withDatabase('bare_heart');
  onTestFinished(() => bare.drop());
  const config = resolveConfig({ database: bare.url, worker: { beat: '20ms' } }, {});
  const heart = new ThreadHeart(config, silentLogger);
  onTestFinished(() => heart.stop());
  await heart.ready();
});
