import { outlastError } from '../errors/error.ts';
import { safeName } from '../task/names.ts';
import { parseAmqpUrl, type RabbitHost } from './amqp-url.ts';
import { maskUrl } from './database-url.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

/** What a user writes about the broker, where a URL alone does not say enough. */
export interface BrokerOptions {
  /** `amqp://…` or `amqps://…`, several hosts with commas; `redis://…` or `rediss://…`. */
  readonly url: string;
  /** Of queues that are not there yet; those that are stay as they are. RabbitMQ only. @default 'classic' */
  readonly queueType?: 'classic' | 'quorum' | undefined;
  /**
   * Priorities that queues declared here know, as Celery's `task_queue_max_priority`. RabbitMQ's classic queues only.
   * @default none
   */
  readonly maxPriority?: number | undefined;
  /**
   * When the broker's copy of a task is let go: after its run is settled, or as soon as the ledger has it. `begin` where
   * Python workers share the queue and must not see a task again that was begun here.
   * @default 'commit'; 'begin' where broker and ledger are one Redis
   */
  readonly ackOn?: 'commit' | 'begin' | undefined;
  /**
   * Whether senders that name a queue for answers get them, as Celery's `rpc://` results. Every Celery producer names one,
   * also where it keeps results elsewhere: then `off` saves a message for each task. RabbitMQ only.
   * @default 'on'
   */
  readonly replies?: 'on' | 'off' | undefined;
  /**
   * Where workers of Python tell how the parts of our chords ended, unless the ledger is in Celery's Redis; resurrectors
   * take it from there. Another for each installation that shares a broker with others.
   * @default 'outlast.chords'
   */
  readonly chordQueue?: string | undefined;
}

interface AnyTarget {
  readonly url: string;
  readonly chordQueue: string;
  readonly ackOn: 'commit' | 'begin';
}

export interface RabbitTarget extends AnyTarget {
  readonly kind: 'rabbitmq';
  readonly hosts: readonly RabbitHost[];
  readonly queueType: 'classic' | 'quorum';
  readonly maxPriority: number | null;
  readonly replies: 'on' | 'off';
}

export interface RedisTarget extends AnyTarget {
  readonly kind: 'redis';
}

/** Where messages go, when that is not the database. */
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
const CHORD_QUEUE = 'outlast.chords';
const KNOWN = ['url', 'queueType', 'maxPriority', 'ackOn', 'replies', 'chordQueue'];
const RABBIT_ONLY = ['queueType', 'maxPriority', 'replies'] as const;

/** Reads the broker as a URL or as options with one; `option` is what it was given as. */
export function readBroker(value: unknown, option: string): BrokerTarget {
  if (typeof value === 'string') return readTarget({ url: value }, option);
  const given = dropUndefined(asRecord(value, option));
  refuseUnknown(Object.keys(given), KNOWN, key => `${option}.${key}`);
  return readTarget(given, option);
}

function readTarget(given: Readonly<Record<string, unknown>>, option: string): BrokerTarget {
  const { url } = given;
  const isLong = Object.keys(given).length > 1;
  const named = isLong ? `${option}.url` : option;
  if (typeof url !== 'string' || url.trim() === '')
    throw rangeError(named, 'is not a URL', ALLOWED);
  const ackOn = choice(given['ackOn'] ?? 'commit', ['commit', 'begin'] as const, `${option}.ackOn`);
  const chordQueue = safeName((given['chordQueue'] ?? CHORD_QUEUE) as string, 'queue');
  const scheme = SCHEME.exec(url)?.[1]?.toLowerCase() ?? '';
  if (AMQP_SCHEMES.has(scheme)) {
    const hosts = parseAmqpUrl(url, named);
    const shape = readShape(given, option);
    return Object.freeze({ kind: 'rabbitmq', url, ackOn, chordQueue, hosts, ...shape });
  }
  if (!REDIS_SCHEMES.has(scheme)) throw rangeError(named, `is ${maskUrl(url)}`, ALLOWED);
  refuseRabbitOptions(given, option);
  return Object.freeze({ kind: 'redis', url, ackOn, chordQueue });
}

function readShape(
  given: Readonly<Record<string, unknown>>,
  option: string,
): Pick<RabbitTarget, 'queueType' | 'maxPriority' | 'replies'> {
  const { maxPriority = null } = given;
  const queueType = choice(
    given['queueType'] ?? 'classic',
    ['classic', 'quorum'] as const,
    `${option}.queueType`,
  );
  const isWell =
    Number.isInteger(maxPriority) && Number(maxPriority) >= 1 && Number(maxPriority) <= 255;
  if (maxPriority !== null && !isWell) {
    throw rangeError(
      `${option}.maxPriority`,
      `is ${shown(maxPriority)}`,
      'Use a whole number from 1 to 255; 10 serves all priorities of tasks.',
    );
  }
  if (maxPriority !== null && queueType === 'quorum') {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: 'quorum queues have no `maxPriority`',
      hint: 'Leave it out, or use classic queues.',
      fields: { options: [`${option}.maxPriority`, `${option}.queueType`] },
    });
  }
  const replies = choice(given['replies'] ?? 'on', ['on', 'off'] as const, `${option}.replies`);
  return { queueType, maxPriority: maxPriority as number | null, replies };
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

function choice<const C extends string>(value: unknown, choices: readonly C[], option: string): C {
  const found = choices.find(known => known === value);
  if (found !== undefined) return found;
  throw rangeError(option, `is ${shown(value)}`, `Use ${choices.map(c => `'${c}'`).join(' or ')}.`);
}
