import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import {
  chain,
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type OutlastConfig,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

const [OLD, NEW] = [`old:${'ab'.repeat(32)}`, `new:${'cd'.repeat(32)}`];

let database: MigratedDatabase;
/** How often the handler of a task has run: it runs what was verified. */
const ran = new Map<string, number>();

beforeAll(async () => {
  database = await migratedDatabase('signing');
});
afterAll(() => database.dispose());

/** An application with these keys; each call is another deployment. */
async function deployed<T>(
  config: OutlastConfig,
  fn: (outlast: Outlast<PoolClient>) => Promise<T>,
): Promise<T> {
  const outlast = createOutlast({
    database: database.url,
    adapter: fromPg(database.pool),
    ...config,
  });
  try {
    return await fn(outlast);
  } finally {
    await outlast.close();
  }
}

async function letterOf(
  outlast: Outlast<PoolClient>,
  { name: taskName }: { readonly name: string },
): Promise<DeadLetterDetails | null> {
  const { deadLetters } = createAdmin(outlast);
  const { items } = await deadLetters.list({ taskName });
  return items[0] === undefined ? null : await deadLetters.show(items[0].id);
}

describe.each([
  ['in the database', () => ({})],
  ['through RabbitMQ', () => ({ broker: rabbitmqUrl() })],
  ['on Redis', () => ({ broker: redisUrl() })],
])('a task %s', (_, broker) => {
  const makeEcho = () =>
    task(unique('echo'), {
      queue: unique('queue'),
      input: unchecked<number>(),
      result: unchecked<number>(),
    });

  /** A message that a broker delivered and that was refused has no right to its id. */
  const idOf = (id: string): object =>
    Object.keys(broker()).length === 0
      ? { id }
      : { id: expect.stringMatching(new RegExp(`^${id}#[0-9a-f]{32}$`)) as string };

  /** Sends under one configuration and works under another. */
  async function run(
    echo: ReturnType<typeof makeEcho>,
    sending: OutlastConfig,
    working: OutlastConfig,
  ): Promise<{ readonly id: string; readonly letter: DeadLetterDetails | null }> {
    const id = unique('task');
    await deployed({ ...broker(), ...sending }, async outlast => {
      const calls = [chain(echo.with(1, { id }), echo)] as const;
      await outlast.transaction(tx => outlast.sendMany(tx, calls));
    });
    const letter = await work(echo, working, async outlast => {
      const relay = await startRelay(outlast);
      const found = await until(async () => {
        const dead = await letterOf(outlast, echo);
        return dead ?? ((await outlast.find(echo, id).state()) === 'done' && 'done');
      });
      await relay.stop();
      return found;
    });
    return { id, letter: letter === 'done' ? null : letter };
  }

  async function work<T>(
    echo: ReturnType<typeof makeEcho>,
    config: OutlastConfig,
    fn: (outlast: Outlast<PoolClient>) => Promise<T>,
  ): Promise<T> {
    return await deployed({ ...broker(), ...config }, async outlast => {
      const tasks = [
        outlast.handler(echo, value => {
          ran.set(echo.name, (ran.get(echo.name) ?? 0) + 1);
          return value;
        }),
      ];
      const worker = await startWorker(outlast, { tasks, queues: [echo.contract.queue] });
      try {
        return await fn(outlast);
      } finally {
        await worker.stop();
      }
    });
  }

  it('without a signature is a dead letter with its bytes, and runs when its queue needs no signature', async () => {
    const echo = makeEcho();
    const { id, letter } = await run(echo, {}, { signingKeys: [NEW] });
    expect(letter).toMatchObject({
      ...idOf(id),
      reason: 'ERR_DIGEST',
      error: expect.stringMatching('not signed') as string,
    });
    const fixed = { signingKeys: [NEW], unsignedQueues: { [echo.contract.queue]: [echo.name] } };
    await work(echo, fixed, async outlast => {
      expect(await createAdmin(outlast).deadLetters.retry(letter?.id ?? '')).toBe('ok');
      expect(await outlast.find(echo, id).result()).toBe(1);
    });
  });

  it('signed with a known key runs, and its follow-ups are signed too', async () => {
    const echo = makeEcho();
    const { letter } = await run(echo, { signingKeys: [OLD] }, { signingKeys: [NEW, OLD] });
    expect(letter).toBeNull();
    await work(echo, { signingKeys: [NEW] }, () => until(async () => ran.get(echo.name) === 2));
  });

  it('signed with a removed key is verified again when it is revived', async () => {
    const echo = makeEcho();
    const { id, letter } = await run(echo, { signingKeys: [OLD] }, { signingKeys: [NEW] });
    expect(letter).toMatchObject({
      reason: 'ERR_DIGEST',
      error: expect.stringMatching('key old') as string,
    });
    await work(echo, { signingKeys: [`old:${'ef'.repeat(32)}`] }, async outlast => {
      const admin = createAdmin(outlast);
      expect(await admin.deadLetters.retry(letter?.id ?? '')).toBe('ok');
      const again = await until(async () => {
        const found = await letterOf(outlast, echo);
        return found !== null && found.error !== letter?.error && found;
      });
      expect(again.error).toMatch('not one of the key old');
    });
    await work(echo, { signingKeys: [NEW, OLD] }, async outlast => {
      expect(await createAdmin(outlast).deadLetters.retry(letter?.id ?? '')).toBe('ok');
      expect(await outlast.find(echo, id).result()).toBe(1);
    });
  });
});
