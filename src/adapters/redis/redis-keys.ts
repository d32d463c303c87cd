/** What kombu puts between the parts of a key or of a binding. */
const SEPARATOR = '\x06\x16';

/**
 * The priorities that have a list, as kombu's Redis transport counts them: 0 comes first, 9 last. Ours count the other
 * way round, 9 first, as everywhere else; `celeryPriority` turns one into the other.
 */
export const STEPS = [0, 3, 6, 9] as const;
const LOWEST = 9;

/** The keys of one queue. On a cluster all of them are in one slot. */
export interface QueueKeys {
  /** From the most urgent step to the least: kombu's own names, so that Celery finds them. */
  readonly lists: readonly string[];
  /** A sorted set: who holds something, and until when. */
  readonly leases: string;
  /** What the names of the hashes begin with, one for each consumer, of the elements it holds. */
  readonly heldPrefix: string;
}

/**
 * Celery knows no cluster, so there the lists may be called what a cluster needs: the part in braces decides the slot.
 * Elsewhere our own keys carry the braces all the same, and `{mail}` is in the slot of `mail`.
 */
export function queueKeys(queue: string, isCluster: boolean): QueueKeys {
  const name = isCluster ? `{${queue}}` : queue;
  return {
    lists: STEPS.map(step => (step === 0 ? name : `${name}${SEPARATOR}${step}`)),
    leases: `outlast:{${queue}}:leases`,
    heldPrefix: `outlast:{${queue}}:held:`,
  };
}

/** Kombu's priority for one of ours, and back: it is its own inverse. */
export function celeryPriority(priority: number): number {
  return LOWEST - Math.min(Math.max(Math.trunc(priority), 0), LOWEST);
}

/** The place of the list that a priority of kombu's belongs to: the greatest step that is not above it. */
export function placeOf(priority: number): number {
  return Math.floor(priority / 3);
}

/** The set in which kombu keeps where the messages of an exchange go. */
export function bindingKey(exchange: string): string {
  return `_kombu.binding.${exchange}`;
}

/** The channel on which kombu publishes to an exchange whose messages go to everybody. */
export function fanoutChannel(db: number, exchange: string, routingKey = ''): string {
  return `/${db}.${exchange}${routingKey === '' ? '' : `/${routingKey}`}`;
}

/** A member of such a set for a queue that is bound by its own name, as Celery declares queues. */
export function ownBinding(queue: string): string {
  return [queue, '', queue].join(SEPARATOR);
}

/** A queue that an exchange leads to, and the member of the set that says so. */
export interface Binding {
  readonly member: string;
  readonly queue: string;
}

/** The bindings that a routing key leads through. Kombu writes a pattern for exchanges that match by one. */
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

/** `*` is a word and `#` is anything, in the words of kombu. */
function topicPattern(key: string): RegExp {
  const words = key.split('.').map(word => {
    if (word === '*') return '.*?[^.]';
    return word === '#' ? '.*?' : word.replace(/[\\^$.*+?()[\]{}|]/g, found => `\\${found}`);
  });
  return new RegExp(`^${words.join('\\.')}$`);
}
