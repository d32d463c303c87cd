import { randomUUID } from 'node:crypto';
import amqp from 'amqplib';
import { Redis } from 'ioredis';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

/** For results: on a very busy machine processes and threads take half a minute to start. */
export const LONG_TIMEOUT = { timeout: '150s' } as const;

/** A message of a client that may publish to a broker and has no key. */
export interface RawMessage {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

export interface Intruder {
  put(queue: string, message: RawMessage): Promise<void>;
  close(): Promise<void>;
}

export async function rabbitIntruder(): Promise<Intruder> {
  const model = await amqp.connect(rabbitmqUrl());
  const channel = await model.createConfirmChannel();
  return {
    put: async (queue, { headers, properties, body }) => {
      const options = { deliveryMode: 2, ...properties, headers: { ...headers } };
      channel.publish('', queue, Buffer.from(body), options);
      await channel.waitForConfirms();
    },
    close: () => model.close(),
  };
}

export async function redisIntruder(): Promise<Intruder> {
  const client = new Redis(redisUrl());
  return {
    put: async (queue, { headers, properties, body }) => {
      const { contentType, contentEncoding, correlationId, replyTo, priority = 0 } = properties;
      const element = {
        body: Buffer.from(body).toString('base64'),
        'content-type': contentType,
        'content-encoding': contentEncoding,
        headers,
        properties: {
          correlation_id: correlationId,
          reply_to: replyTo,
          delivery_mode: 2,
          delivery_info: { exchange: '', routing_key: queue },
          priority,
          body_encoding: 'base64',
          delivery_tag: randomUUID(),
        },
      };
      await client.lpush(queue, JSON.stringify(element));
    },
    close: async () => void (await client.quit()),
  };
}

const NOTHING = { callbacks: null, errbacks: null, chain: null, chord: null };

/** As a Python client writes it: unsigned. */
export function pythonMessage(
  task: string,
  id: string,
  { args = [], embed = {}, headers = {} }: PythonParts = {},
): RawMessage {
  return {
    headers: {
      lang: 'py',
      task,
      id,
      root_id: id,
      parent_id: null,
      group: null,
      retries: 0,
      timelimit: [null, null],
      argsrepr: '()',
      kwargsrepr: '{}',
      origin: 'gen1@x',
      ...headers,
    },
    properties: { contentType: 'application/json', contentEncoding: 'utf-8', correlationId: id },
    body: Buffer.from(JSON.stringify([args, {}, { ...NOTHING, ...embed }])),
  };
}

interface PythonParts {
  readonly args?: readonly unknown[];
  readonly embed?: object;
  readonly headers?: object;
}
