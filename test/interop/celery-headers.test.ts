import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import amqp, { type ChannelModel, type ConfirmChannel } from 'amqplib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type Publication,
  publishByDriver,
  publishOn,
} from '../../src/adapters/rabbitmq/frame-writer.ts';
import { RabbitFleet } from '../../src/adapters/rabbitmq/rabbitmq-fleet.ts';
import { type RabbitTarget, readBroker } from '../../src/config/broker-target.ts';
import { toBytes } from '../../src/task/json.ts';
import { EVENT_EXCHANGE, REPLY_EXCHANGE } from '../../src/wire/headers.ts';
import { until } from '../support/database.ts';
import { celeryPython, rabbitmqUrl } from '../support/servers.ts';
import { otherCelery } from './celery-kit.ts';

const HEADERS_PY = new URL('celery/headers.py', import.meta.url).pathname;

/** Both sides of every boundary between two integer sizes, and values that are not integers. */
const NUMBERS = [7, 8, 15, 16, 31, 32, 48, 52]
  .flatMap(bits => [2 ** bits - 1, 2 ** bits, 2 ** bits + 1])
  .flatMap(value => [value, -value])
  .concat(0, 45, 130, 2 ** 53 - 1, -(2 ** 53 - 1), 2 ** 53, 2 ** 60, 1e300, 0.5, -0.25);

const HEADERS = {
  ...Object.fromEntries(NUMBERS.map((value, at) => [`n${at}`, value])),
  list: [...NUMBERS, null, 'text'],
  table: { inner: { numbers: NUMBERS, yes: true } },
  text: 'naïve',
  nothing: null,
  no: false,
};

let model: ChannelModel;
let channel: ConfirmChannel;

beforeAll(async () => {
  model = await amqp.connect(rabbitmqUrl());
  channel = await model.createConfirmChannel();
});

afterAll(async () => {
  await model.close();
});

async function makeQueue(): Promise<string> {
  return (
    await channel.assertQueue(`headers-${randomUUID()}`, { exclusive: false, expires: 60_000 })
  ).queue;
}

/** How py-amqp reads the first message of a queue. */
async function readByPython(queue: string): Promise<Record<string, unknown>> {
  await until(async () => (await channel.checkQueue(queue)).messageCount > 0);
  const { stdout } = await promisify(execFile)(celeryPython(), [HEADERS_PY, rabbitmqUrl(), queue], {
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...otherCelery() },
  });
  return JSON.parse(stdout) as Record<string, unknown>;
}

/** As Python prints them: integers are integers and the rest are doubles. */
const asPython = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;

function publication(queue: string): Publication {
  return {
    exchange: '',
    routingKey: queue,
    headers: HEADERS,
    properties: {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      priority: 3,
      correlationId: 'one',
      replyTo: 'two',
    },
    body: toBytes('[]'),
  };
}

describe('headers with integers of every size', () => {
  it.each([
    ['our own frames', publishOn],
    ['the driver', publishByDriver],
  ] as const)('are read by py-amqp as they were written by %s', async (_, open) => {
    const queue = await makeQueue();
    const sink = open(channel);
    const confirmed = new Promise((resolve, reject) =>
      sink.add(publication(queue), error => (error ? reject(error) : resolve(null))),
    );
    sink.flush();
    await confirmed;
    expect(await readByPython(queue)).toMatchObject({
      application_headers: asPython(HEADERS),
      content_type: 'application/json',
      delivery_mode: 2,
      priority: 3,
      correlation_id: 'one',
      reply_to: 'two',
    });
  });

  it.each(['tell', 'answer'] as const)(
    'are read by py-amqp in what the fleet sends: %s',
    async how => {
      const queue = await makeQueue();
      const exchange = how === 'tell' ? EVENT_EXCHANGE : REPLY_EXCHANGE;
      const target = readBroker(rabbitmqUrl(), 'broker') as RabbitTarget;
      const fleet = new RabbitFleet(target, { node: 'headers', onTrouble: () => undefined });
      onTestFinished(() => fleet.close());
      const message = { routingKey: queue, headers: HEADERS, body: toBytes('{}') };
      // The first message ensures that the exchange exists, and reaches no queue: nothing is bound to it yet.
      await fleet[how](message);
      await until(() =>
        model.createChannel().then(
          async probe => {
            probe.on('error', () => undefined);
            await probe.checkExchange(exchange);
            await probe.close();
            return true;
          },
          () => false,
        ),
      );
      await channel.bindQueue(queue, exchange, queue);
      await fleet[how](message);
      expect(await readByPython(queue)).toMatchObject({ application_headers: asPython(HEADERS) });
    },
  );
});
