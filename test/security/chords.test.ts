import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  chord,
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { chordOf } from '../../src/task/chord-link.ts';
import { toBytes } from '../../src/task/json.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';
import {
  LONG_TIMEOUT,
  pythonMessage,
  rabbitIntruder,
  redisIntruder,
  type Intruder,
} from './intruder.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('chords');
});
afterAll(() => database.dispose());

/** A worker that signs, a chord with a key that waits in the outbox, and somebody who knows its group id. */
async function setup(broker: string, enter: () => Promise<Intruder>) {
  const [queue, openQueue] = [unique('protected'), unique('open')];
  const outlast = createOutlast({
    database: database.url,
    adapter: fromPg(database.pool),
    broker,
    signingKeys: [`k:${'ab'.repeat(32)}`],
    unsignedQueues: { [openQueue]: ['open.*'] },
  });
  const part = task(unique('part'), { queue, result: unchecked<string>() });
  const total = task(unique('total'), {
    queue,
    input: unchecked<string[]>(),
    result: unchecked<string>(),
  });
  const forges = task(unique('open.forges'), { queue: openQueue, result: unchecked<string>() });
  const takes = task(unique('open.takes'), { queue: openQueue, input: unchecked<string[]>() });
  const [totals, taken]: [string[][], string[][]] = [[], []];
  const worker = await startWorker(outlast, {
    tasks: [
      outlast.handler(part, () => 'genuine'),
      outlast.handler(total, results => {
        totals.push(results);
        return results.join();
      }),
      outlast.handler(forges, () => 'forged'),
      outlast.handler(takes, results => void taken.push(results)),
    ],
    queues: [queue, openQueue],
    idleTime: '100ms',
  });
  const resurrector = await startResurrector(outlast);
  const intruder = await enter();
  onTestFinished(async () => {
    await intruder.close();
    await resurrector.stop();
    await worker.stop();
    await outlast.close();
  });
  await (await outlast.push(forges)).result(LONG_TIMEOUT);
  const [bodyId, ...partIds] = [unique('body'), unique('part'), unique('part')];
  await outlast.transaction(tx =>
    outlast.sendMany(tx, [
      chord(
        partIds.map(id => part.with(undefined, { id })),
        total.after(undefined, { id: bodyId }),
      ),
    ]),
  );
  const groupId = await groupOf(partIds[0] ?? '');
  /** Puts in parts of that group, with results of the intruder's choice. */
  const join = async (places: readonly number[], body: Signature): Promise<void> => {
    const chordBody = { args: [], kwargs: {}, ...body, chord_size: 2 };
    for (const place of places) {
      const kwargs = { group: groupId, place, size: 2, body: JSON.stringify(chordBody) };
      const link = { task: 'outlast.chord_part', args: [], kwargs, options: {} };
      const headers = { group: groupId, group_index: place };
      // As Celery counts, and as our own senders have it counted where Celery does not.
      for (const parts of [
        { embed: { chord: chordBody }, headers },
        { embed: { callbacks: [link] } },
      ]) {
        const id = unique('forged');
        await intruder.put(openQueue, pythonMessage(forges.name, id, parts));
        await outlast.find(forges, id).result(LONG_TIMEOUT);
      }
    }
  };
  const release = async (): Promise<void> => {
    const relay = await startRelay(outlast);
    onTestFinished(() => relay.stop());
    for (const id of partIds) await outlast.find(part, id).result(LONG_TIMEOUT);
  };
  return {
    join,
    release,
    totals,
    taken,
    ofIntruder: { task: takes.name, options: { queue: openQueue } },
    genuine: { task: total.name, options: { queue, task_id: bodyId } },
    body: outlast.find(total, bodyId),
    letters: async () => {
      const { items } = await createAdmin(outlast).deadLetters.list({ taskName: total.name });
      return items.map(({ reason }) => reason);
    },
  };
}

interface Signature {
  readonly task: string;
  readonly options: object;
}

/** The group of a chord whose part waits in the outbox. */
async function groupOf(id: string): Promise<string> {
  const { rows } = await database.pool.query<
    Record<'args' | 'kwargs' | 'embed' | 'options', Buffer>
  >('select args, kwargs, embed, options from outlast_outbox where task_id = $1', [id]);
  const [row] = rows;
  if (row === undefined) throw new Error(`${id} does not wait in the outbox`);
  const { args, kwargs, embed, options } = row;
  const found = chordOf({ body: toBytes(`[${[args, kwargs, embed].join()}]`), options });
  if (found === null) throw new Error(`${id} belongs to no chord`);
  return found.groupId;
}

it('parts of unsigned tasks do not count in a signed chord: ledger in PostgreSQL', async () => {
  const { join, release, totals, taken, ofIntruder, body } = await setup(
    rabbitmqUrl(),
    rabbitIntruder,
  );
  await join([0, 1], ofIntruder);
  await release();
  expect(await body.result(LONG_TIMEOUT)).toBe('genuine,genuine');
  expect(totals).toEqual([['genuine', 'genuine']]);
  // It is a chord of its own, and gets nothing of the other.
  await until(async () => taken.length > 0);
  expect(taken.flat()).not.toContain('genuine');
});

it('a part of an unsigned task makes the body unsigned where Celery counts chords: ledger in Redis', async () => {
  const { join, release, totals, genuine, letters } = await setup(redisUrl(), redisIntruder);
  await join([0], genuine);
  await release();
  // It spoils the chord: nobody signs a body with its result.
  await until(async () => totals.length > 0 || (await letters()).length > 0);
  expect(await letters()).toEqual(['ERR_DIGEST']);
  expect(totals).toEqual([]);
});
