import { existsSync, mkdtempSync, rmSync, statSync, utimesSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isOutlastError } from '../../errors/error.ts';
import type { RelayStatus } from '../../relay/relay.ts';
import { systemClock } from '../../runtime/runtime.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { withHealth } from './relay-health.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'outlast-health-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const healthy: RelayStatus = { idleMs: 100, breaker: 'closed', sample: null, workerLetters: null };
const NONE = {
  livenessFile: null,
  healthPort: null,
  healthHost: '127.0.0.1',
  sendTimeoutMs: 10_000,
};

describe('the liveness file', () => {
  it('is touched while the relay makes progress, and no longer when it does not', async () => {
    const time = new VirtualTime();
    time.nowMs = 1_000_000;
    const { clock } = time;
    const livenessFile = join(folder, 'alive');
    const relay = { status: healthy };
    const runtime = { clock, log: silentLogger };
    const touchedAt = (): number => statSync(livenessFile).mtimeMs;
    await withHealth(relay, { ...NONE, livenessFile }, runtime, async () => {
      expect(touchedAt()).toBe(1_000_000);
      await time.runUntil(1_005_000);
      expect(touchedAt()).toBe(1_005_000);
      relay.status = { ...healthy, idleMs: 20_001 };
      await time.runUntil(1_060_000);
      expect(touchedAt()).toBe(1_005_000);
      relay.status = { ...healthy, breaker: 'open' };
      await time.runUntil(1_061_000);
      expect(touchedAt()).toBe(1_061_000);
    });
    utimesSync(livenessFile, 1, 1);
    await time.runUntil(1_100_000);
    expect(touchedAt()).toBe(1_000);
  });

  it('does not stop the relay when it cannot be written', async () => {
    const livenessFile = join(folder, 'no', 'such', 'folder');
    const runtime = { clock: systemClock, log: silentLogger };
    const relay = { status: healthy };
    await withHealth(relay, { ...NONE, livenessFile }, runtime, async () => undefined);
    expect(existsSync(livenessFile)).toBe(false);
  });
});

describe('the health port', () => {
  it('answers 200 while the relay makes progress, 503 when not, 404 for the rest', async () => {
    const healthPort = await freePort();
    const relay = { status: healthy };
    const runtime = { clock: systemClock, log: silentLogger };
    const get = async (path: string): Promise<Response> =>
      await fetch(`http://127.0.0.1:${healthPort}${path}`);
    await withHealth(relay, { ...NONE, healthPort }, runtime, async () => {
      const well = await get('/health');
      expect([well.status, await well.json()]).toMatchObject([
        200,
        { alive: true, breaker: 'closed', idle_seconds: 0.1, queue_depth: null },
      ]);
      relay.status = {
        idleMs: 20_001,
        breaker: 'open',
        sample: {
          pending: 9,
          due: 3,
          scheduled: 1,
          backoff: 2,
          deferred: 3,
          claimed: 2,
          sent: 0,
          unsupported: 1,
          deadLetters: 4,
          oldestPendingMs: 1_500,
          queues: [],
          topFailing: [],
        },
        workerLetters: 6,
      };
      const ill = await get('/health');
      expect([ill.status, await ill.json()]).toMatchObject([
        503,
        {
          alive: false,
          queue_depth: 5,
          scheduled: 1,
          backoff: 2,
          deferred: 3,
          dlq_count: 10,
          dlq: { outbox: 4, worker: 6 },
          oldest_pending_seconds: 1.5,
          unsupported: 1,
        },
      ]);
      expect((await get('/')).status).toBe(404);
    });
    await expect(get('/health')).rejects.toThrow();
  });

  it('is reported as in use before the relay runs', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const runtime = { clock: systemClock, log: silentLogger };
    let ran = false;
    const failed = await withHealth(
      { status: healthy },
      { ...NONE, healthPort: port },
      runtime,
      async () => void (ran = true),
    ).catch((error: unknown) => error);
    expect(isOutlastError(failed, 'ERR_OPTIONS_CONFLICT')).toBe(true);
    expect(ran).toBe(false);
    server.close();
  });
});
