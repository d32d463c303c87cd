import { outlastError } from '../errors/error.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { BROKER_TABLE } from '../options/broker-table.ts';
import { rowOf } from '../options/option.ts';
import { parseAmqpUrl, type RabbitHost } from './amqp-url.ts';
import type { BrokerOptions } from './options.generated.ts';
import { readValue } from './resolve-section.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

export type { BrokerOptions };

interface AnyTarget {
  readonly url: string;
  readonly chordQueue: string;
  readonly ackOn: 'commit' | 'begin';
  readonly destinations: readonly string[];
}

export interface RabbitTarget extends AnyTarget {
  readonly kind: 'rabbitmq';
  readonly hosts: readonly RabbitHost[];
  readonly queueType: 'classic' | 'quorum';
  /** Of the exchange beside a queue that is declared; null: none is. */
  readonly exchangeType: 'direct' | 'topic' | null;
  readonly delayedDelivery: 'quorum' | 'classic' | 'off';
  readonly maxPriority: number | null;
  readonly replies: 'on' | 'off';
}

export interface RedisTarget extends AnyTarget {
  readonly kind: 'redis';
}

/** The broker, if that is not the database. */
export type BrokerTarget = RabbitTarget | RedisTarget;

/** A single server, sentinels or a cluster; the adapter reads the rest. */
export const REDIS_SCHEMES: ReadonlySet<string> = new Set([
  'redis',
  'rediss',
  'sentinel',
  'redis+cluster',
  'rediss+cluster',
]);

const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
const ALLOWED =
  'Use amqp://user:password@host:5672/vhost, amqps://…, redis://host:6379/0 or rediss://….';
const AMQP_SCHEMES: ReadonlySet<string> = new Set(['amqp', 'amqps', 'pyamqp']);
const RABBIT_ONLY = [
  'queueType',
  'exchangeType',
  'delayedDelivery',
  'maxPriority',
  'replies',
] as const;

/** Reads the broker as a URL or as options with one; `option` is its name for errors. */
export function readBroker(value: unknown, option: string): BrokerTarget {
  if (typeof value === 'string') return readTarget({ url: value }, option);
  const given = dropUndefined(asRecord(value, option));
  refuseUnknown(Object.keys(given), Object.keys(BROKER_TABLE), key => `${option}.${key}`);
  return readTarget(given, option);
}

function readTarget(given: Readonly<Record<string, unknown>>, option: string): BrokerTarget {
  const { url } = given;
  const isLong = Object.keys(given).length > 1;
  const named = isLong ? `${option}.url` : option;
  if (typeof url !== 'string' || url.trim() === '')
    throw rangeError(named, 'is not a URL', ALLOWED);
  const ackOn = readRow(given, 'ackOn', option) as AnyTarget['ackOn'];
  const chordQueue = readRow(given, 'chordQueue', option) as string;
  const destinations = readDestinations(given['destinations'] ?? [], `${option}.destinations`);
  const shared = { url, ackOn, chordQueue, destinations };
  const scheme = SCHEME.exec(url)?.[1]?.toLowerCase() ?? '';
  if (AMQP_SCHEMES.has(scheme)) {
    const hosts = parseAmqpUrl(url, named);
    const shape = readShape(given, option);
    return Object.freeze({ kind: 'rabbitmq', ...shared, hosts, ...shape });
  }
  if (!REDIS_SCHEMES.has(scheme)) throw rangeError(named, `is ${maskUrl(url)}`, ALLOWED);
  refuseRabbitOptions(given, option);
  return Object.freeze({ kind: 'redis', ...shared });
}

/** Long enough for any name, and short enough to be compared with every message. */
const LONGEST_GLOB = 255;
const MOST_GLOBS = 1_000;

function readDestinations(value: unknown, option: string): readonly string[] {
  const hint = "Name queues and exchanges: ['billing.*', 'exchange:events'].";
  if (!Array.isArray(value) || value.length > MOST_GLOBS)
    throw rangeError(option, `is ${shown(value)}`, hint);
  const isGlob = (glob: unknown): glob is string =>
    typeof glob === 'string' && glob !== '' && glob.length <= LONGEST_GLOB;
  const wrong = value.find(glob => !isGlob(glob)) as unknown;
  if (wrong !== undefined) throw rangeError(option, `names ${shown(wrong)}`, hint);
  return Object.freeze([...(value as readonly string[])]);
}

function readShape(
  given: Readonly<Record<string, unknown>>,
  option: string,
): Omit<RabbitTarget, keyof AnyTarget | 'kind' | 'hosts'> {
  const { maxPriority = null } = given;
  const queueType = readRow(given, 'queueType', option) as RabbitTarget['queueType'];
  const { min, max } = rowOf(BROKER_TABLE, 'maxPriority', 'integer');
  const isWell =
    Number.isInteger(maxPriority) && Number(maxPriority) >= min && Number(maxPriority) <= max;
  if (maxPriority !== null && !isWell) {
    throw rangeError(
      `${option}.maxPriority`,
      `is ${shown(maxPriority)}`,
      `Use a whole number from ${min} to ${max}; 10 serves all priorities of tasks.`,
    );
  }
  if (maxPriority !== null && queueType === 'quorum') {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: 'quorum queues have no `maxPriority`',
      hint: 'Leave it out, or use classic queues.',
      fields: { options: [`${option}.maxPriority`, `${option}.queueType`] },
    });
  }
  const replies = readRow(given, 'replies', option) as RabbitTarget['replies'];
  const isQuorum = queueType === 'quorum';
  const exchangeType = readRow(given, 'exchangeType', option);
  const delayedDelivery = readRow(given, 'delayedDelivery', option);
  const auto = isQuorum
    ? ({ exchangeType: null, delayedDelivery: 'quorum' } as const)
    : ({ exchangeType: 'direct', delayedDelivery: 'off' } as const);
  return {
    queueType,
    ...auto,
    ...(exchangeType === 'auto' ? {} : { exchangeType: exchangeType as 'direct' | 'topic' }),
    ...(delayedDelivery === 'auto'
      ? {}
      : { delayedDelivery: delayedDelivery as RabbitTarget['delayedDelivery'] }),
    maxPriority: maxPriority as number | null,
    replies,
  };
}

function refuseRabbitOptions(given: Readonly<Record<string, unknown>>, option: string): void {
  const wrong = RABBIT_ONLY.find(key => key in given);
  if (wrong === undefined) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `\`${option}.${wrong}\` is for RabbitMQ, and the broker is Redis`,
    hint: 'Leave it out.',
    fields: { options: [`${option}.url`, `${option}.${wrong}`] },
  });
}

/** An option that its kind describes completely. */
function readRow(
  given: Readonly<Record<string, unknown>>,
  key: keyof BrokerOptions,
  option: string,
): unknown {
  const row = rowOf(BROKER_TABLE, key, 'choice', 'name');
  return readValue(row, given[key] ?? row.default, `${option}.${key}`);
}
