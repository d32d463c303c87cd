import { readFileSync } from 'node:fs';

/** A request of Celery's remote control, and what a Celery worker answered. */
export interface ControlCase {
  readonly name: string;
  readonly request: FleetMessage;
  /** Null: no answer was requested. */
  readonly reply: FleetMessage | null;
}

export interface FleetMessage {
  readonly exchange: string;
  readonly routing_key: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

interface RecordedCase {
  readonly name: string;
  readonly steps: readonly { readonly send: unknown; readonly message?: FleetMessage }[];
}

const read = (file: string): unknown => {
  const url = new URL(`../vectors/celery/${file}`, import.meta.url);
  return (JSON.parse(readFileSync(url, 'utf8')) as { vectors: unknown }).vectors;
};

/** Every case of `control-amqp.json` with a request in it. */
export function controlCases(): readonly ControlCase[] {
  const groups = Object.values(read('control-amqp.json') as Record<string, unknown>).flat();
  return (groups as RecordedCase[])
    .filter(({ name, steps }) => name !== undefined && steps !== undefined)
    .flatMap(({ name, steps }) => {
      const messages = steps.flatMap(({ message }) => (message === undefined ? [] : [message]));
      const request = messages.find(({ exchange }) => exchange === 'celery.pidbox');
      const reply = messages.find(({ exchange }) => exchange === 'reply.celery.pidbox') ?? null;
      return request === undefined ? [] : [{ name, request, reply }];
    });
}

/** One event of each type, as Celery sent it on RabbitMQ. */
export function celeryEvents(): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  const { amqp } = read('events.json') as {
    readonly amqp: { readonly messages: readonly { readonly message: FleetMessage }[] };
  };
  const events = amqp.messages.flatMap(
    ({ message }) => JSON.parse(message.body) as Readonly<Record<string, unknown>>[],
  );
  return new Map(events.map(event => [String(event['type']), event]));
}

interface RedisStep {
  readonly send: readonly string[];
}

/** The elements that a Celery worker on Redis pushed as answers, with the list of each. */
export function redisReplies(): readonly { readonly list: string; readonly element: string }[] {
  const groups = Object.values(read('control-redis.json') as Record<string, unknown>).flat();
  const steps = (groups as { readonly steps?: readonly RedisStep[] }[]).flatMap(
    group => group.steps ?? [],
  );
  return steps
    .filter(({ send }) => send[0] === 'LPUSH')
    .map(({ send }) => ({ list: send[1] ?? '', element: send[2] ?? '' }));
}
