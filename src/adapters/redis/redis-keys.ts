import { ANY_TEXT, thisChar, Wildcard, type WildcardPart } from '../../task/glob.ts';

/** Kombu's separator between the parts of a key or a binding. */
const SEPARATOR = '\x06\x16';

/**
 * The priorities that have a list. On Redis 0 comes first and 9 last, as kombu has it and unlike everywhere else: the same
 * number means the same to Celery and to us.
 */
export const STEPS = [0, 3, 6, 9] as const;
const LOWEST = 9;

const RESERVED = /^(outlast:|_kombu\.|unacked|celery-task(set)?-meta-)/;

/**
 * Whether this is a key name that cannot be a queue, whatever a message claims: ours, and those of kombu's transport and
 * of Celery's results. With the separator it would be one priority list of another queue.
 */
export const isReservedKey = (queue: string): boolean =>
  RESERVED.test(queue) || queue.includes(SEPARATOR);

/** The keys of one queue. On a cluster all of them are in one hash slot. */
export interface QueueKeys {
  /** From the most to the least urgent step: kombu's own names, so that Celery finds them. */
  readonly lists: readonly string[];
  /** A sorted set: consumers that hold elements, and until when. */
  readonly leases: string;
  /** The prefix of the hashes, one per consumer, with the elements it holds. */
  readonly heldPrefix: string;
}

/**
 * Celery does not support clusters, so there the lists can be named as a cluster needs: the part in braces decides the
 * hash slot. Elsewhere our own keys have the braces all the same, and `{mail}` is in the slot of `mail`.
 */
export function queueKeys(queue: string, isCluster: boolean): QueueKeys {
  const name = isCluster ? `{${queue}}` : queue;
  return {
    lists: STEPS.map(step => (step === 0 ? name : `${name}${SEPARATOR}${step}`)),
    leases: `outlast:{${queue}}:leases`,
    heldPrefix: `outlast:{${queue}}:held:`,
  };
}

/** The index of the list for a priority: the greatest step that is not above it. */
export function listIndexOf(priority: number): number {
  return Math.floor(Math.min(Math.max(priority, 0), LOWEST) / 3);
}

/** Between a priority and its place in a record, both ways. */
export type Rank = (priority: number) => number;

/** Records count 9 as the most urgent. Where the broker is Redis, 0 is. */
export const rankBy = (isZeroFirst: boolean): Rank =>
  isZeroFirst ? priority => LOWEST - Math.min(Math.max(priority, 0), LOWEST) : priority => priority;

/** The set in which kombu stores the bindings of an exchange. */
export function bindingKey(exchange: string): string {
  return `_kombu.binding.${exchange}`;
}

/** The channel on which kombu publishes to a fanout exchange. */
export function fanoutChannel(db: number, exchange: string, routingKey = ''): string {
  return `/${db}.${exchange}${routingKey === '' ? '' : `/${routingKey}`}`;
}

/** A member of such a set for a queue bound by its own name, as Celery declares queues. */
export function ownBinding(queue: string): string {
  return [queue, '', queue].join(SEPARATOR);
}

/** A queue bound to an exchange, and the member of the set with the binding. */
export interface Binding {
  readonly member: string;
  readonly queue: string;
}

/** The bindings that match a routing key. For topic exchanges kombu writes a pattern. */
export function matchingBindings(
  members: readonly string[],
  routingKey: string,
): readonly Binding[] {
  return members.flatMap(member => {
    const [key = '', pattern = '', queue = ''] = member.split(SEPARATOR);
    const isBound = pattern === '' ? key === routingKey : topicPattern(key).test(routingKey);
    return isBound && queue !== '' ? [{ member, queue }] : [];
  });
}

/** The queues that the bindings of an exchange lead to. */
export function boundQueues(members: readonly string[], routingKey: string): readonly string[] {
  return [...new Set(matchingBindings(members, routingKey).map(({ queue }) => queue))];
}

/**
 * `*` is a word and `#` is anything, as in kombu. Any client of the server can write bindings: a regular expression made
 * from one could run forever.
 */
function topicPattern(key: string): Wildcard {
  const words = key.split('.').map((word): WildcardPart[] => {
    if (word === '*') return [ANY_TEXT, char => char !== '.'];
    return word === '#' ? [ANY_TEXT] : Array.from(word).map(thisChar);
  });
  return new Wildcard(words.flatMap((word, index) => (index === 0 ? word : [isDot, ...word])));
}

const isDot = thisChar('.');
