import type { ChannelModel } from 'amqplib';
import type { RabbitHost } from '../../config/amqp-url.ts';
import { type Check, advise, ok, problem } from '../../telemetry/checkup.ts';
import { checkDeliveryLimit } from './delivery-limit.ts';
import { isExchange } from './exchange.ts';
import { replyCode } from './rabbitmq-errors.ts';
import { type OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { withChannel, within } from './with-channel.ts';

export interface RabbitCheckupOptions {
  readonly hosts: readonly RabbitHost[];
  /** Those that workers of the configuration take from. */
  readonly queues: readonly string[];
  /** Others that the ledger knows: they may be gone. */
  readonly others?: readonly string[];
  /** Those that a living worker of Outlast takes from, whatever RabbitMQ says at this moment. */
  readonly taken: ReadonlySet<string>;
  readonly paused: ReadonlySet<string>;
}

const [ACCESS_REFUSED, NOT_FOUND] = [403, 404];
const OPEN_MS = 15_000;
/** A server without an alarm confirms a message that goes nowhere at once. */
const CONFIRM_MS = 5_000;

/** Each costs a few round trips, and all of them together have a minute. */
const MOST_OTHERS = 100;

/** Checks a RabbitMQ. It declares nothing, and what it publishes goes nowhere. Every question is bounded in time. */
export async function checkRabbit(options: RabbitCheckupOptions): Promise<readonly Check[]> {
  const link = new RabbitLink(options.hosts, 'doctor', { onBlocked: () => undefined });
  try {
    const open = await within(OPEN_MS, link.open(), 'has opened no connection');
    const { version } = open.model.connection.serverProperties;
    const checks = [ok('connection', `RabbitMQ ${version} answers`, { version })];
    checks.push(await checkPublish(open));
    for (const queue of options.queues)
      checks.push(...(await checkQueue(open.model, queue, options)));
    for (const queue of (options.others ?? []).slice(0, MOST_OTHERS))
      checks.push(...(await checkOther(open.model, queue, options)));
    return checks;
  } finally {
    await link.close();
  }
}

/** The server reports an alarm only to publishers. */
async function checkPublish(link: OpenLink): Promise<Check> {
  const { model } = link;
  let refused: Error | null = null;
  try {
    const channel = await within(CONFIRM_MS, model.createConfirmChannel(), 'has opened no channel');
    const closed = new Promise<never>((_, reject) => {
      channel.on('error', error => reject(error));
    });
    closed.catch(() => undefined);
    channel.publish('', `outlast.doctor.${process.pid}`, Buffer.alloc(0));
    const confirmed = Promise.race([channel.waitForConfirms(), closed]);
    await within(CONFIRM_MS, confirmed, 'has not confirmed a message');
    await within(CONFIRM_MS, channel.close(), 'has closed no channel');
  } catch (error) {
    refused = error instanceof Error ? error : new Error(String(error));
  }
  const blocked = link.blocked();
  if (blocked !== null)
    return problem(
      'alarms',
      `RabbitMQ accepts no messages: ${blocked}`,
      'Free memory or disk on its nodes: rabbitmq-diagnostics alarms. Rows wait in the outbox meanwhile.',
      { blocked },
    );
  if (refused === null) return ok('alarms', 'messages are accepted and confirmed');
  if (replyCode(refused) === ACCESS_REFUSED) return denied(refused, 'publish');
  throw refused;
}

function denied(error: unknown, what: string): Check {
  return problem(
    'permission',
    `this user may not ${what}: ${error instanceof Error ? error.message : String(error)}`,
    'Grant it configure, write and read: rabbitmqctl set_permissions -p VHOST USER ".*" ".*" ".*".',
    {},
  );
}

interface QueueFound {
  readonly messageCount: number;
  readonly consumerCount: number;
}

async function checkQueue(
  model: ChannelModel,
  queue: string,
  options: RabbitCheckupOptions,
): Promise<readonly Check[]> {
  try {
    const found = await withChannel(model, queue, channel => channel.checkQueue(queue));
    const hasExchange = await isExchange(model, queue);
    const limit = await checkDeliveryLimit(model, queue);
    const checks = [consumersCheck(queue, found, options), bindingCheck(queue, hasExchange)];
    return limit === null ? checks : [...checks, limit];
  } catch (error) {
    if (replyCode(error) === ACCESS_REFUSED) return [denied(error, `use queue ${queue}`)];
    if (replyCode(error) !== NOT_FOUND) throw error;
    return [
      advise(
        'topology',
        `queue ${queue} does not exist in RabbitMQ`,
        `The first worker of it declares it: npx outlast worker --queues ${queue}. Until then Celery cannot send to it.`,
        { queue },
      ),
    ];
  }
}

/** Only what is wrong with it: that it is gone, or what Celery could send to it, is not for us to say. */
async function checkOther(
  model: ChannelModel,
  queue: string,
  options: RabbitCheckupOptions,
): Promise<readonly Check[]> {
  const checks = await checkQueue(model, queue, options);
  return checks.filter(({ name, status }) => name !== 'topology' && status !== 'ok');
}

function consumersCheck(
  queue: string,
  { messageCount: messages, consumerCount: consumers }: QueueFound,
  { taken, paused }: RabbitCheckupOptions,
): Check {
  const details = { queue, messages, consumers };
  if (messages === 0 || consumers > 0 || taken.has(queue))
    return ok('queues', `${messages} messages and ${consumers} consumers in ${queue}`, details);
  const lie = `${messages} messages lie in ${queue}`;
  return paused.has(queue)
    ? advise('queues', `${lie}: it is paused`, `npx outlast queues resume ${queue}`, details)
    : problem(
        'queues',
        `${lie}, and no worker takes from it`,
        `Start a worker: npx outlast worker --queues ${queue}.`,
        details,
      );
}

/** Celery publishes to an exchange with the name of the queue; we publish to the queue itself. */
function bindingCheck(queue: string, hasExchange: boolean): Check {
  if (hasExchange) return ok('topology', `${queue} has an exchange of its name`, { queue });
  return advise(
    'topology',
    `there is no exchange ${queue}, to which Celery would send`,
    'Only where Python sends to this queue: let Celery declare it, or delete the empty queue and start a worker.',
    { queue },
  );
}
