import type { PublishManner } from '../broker/broker.ts';
import type { Envelope } from '../task/envelope.ts';
import { decodeJson } from '../task/json.ts';
import { hasFollowUps, isChordLink, readEmbed } from '../task/signature.ts';
import { isReserved } from './destinations.ts';

/** Queues that one call declares besides those it sends to; a worker that declares them handles the rest. */
const MOST_QUEUES = 100;
/** Nesting depth of signatures, and signatures read in one call: a chain of thousands names the same few queues. */
const MOST_NESTED = 32;
const MOST_READ = 10_000;

/**
 * How messages of our own application are published. Our own code chose where their follow-ups go, so the queues may be
 * declared. The worker that sends the follow-ups later reads a message, which any sender may have written, and declares none.
 */
export function ownManner(messages: readonly Envelope[]): PublishManner | undefined {
  const followed = messages.filter(({ body }) => hasFollowUps(body));
  if (followed.length === 0) return undefined;
  const names = new QueueNames();
  for (const { body } of followed) names.read(body);
  return names.queues.size === 0 ? undefined : { alsoDeclare: [...names.queues] };
}

/** The queues that follow-ups name, at every depth. */
class QueueNames {
  readonly queues = new Set<string>();
  #left = MOST_READ;

  read(body: Uint8Array): void {
    try {
      const { callbacks, errbacks, chain, chord } = readEmbed(body);
      for (const text of [...callbacks, ...errbacks, ...(chain ?? []), chord ?? 'null'])
        this.#visit(decodeJson(text), 0);
    } catch {
      // The worker that reads it to send the follow-ups reports what is wrong with it.
    }
  }

  #visit(value: unknown, depth: number): void {
    if (Array.isArray(value)) for (const item of value) this.#visit(item, depth);
    else if (isObject(value) && depth <= MOST_NESTED && this.#left > 0)
      this.#sign(value, depth + 1);
  }

  #sign({ task, kwargs, options }: Fields, depth: number): void {
    this.#left -= 1;
    if (isObject(options)) {
      const { queue, exchange = null, link, link_error, chain, chord } = options;
      const isOwnRoute = exchange !== null && exchange !== '';
      if (typeof queue === 'string' && !isOwnRoute) this.#add(queue);
      for (const next of [link, link_error, chain, chord]) this.#visit(next, depth);
    }
    if (!isObject(kwargs)) return;
    const { tasks, header, body } = kwargs;
    // If the parts of a chord report to us, its body travels as a string.
    if (isChordLink(String(task)) && typeof body === 'string') this.#visit(decodeJson(body), depth);
    if (!STANDS_FOR_OTHERS.has(task)) return;
    for (const next of [tasks, header, body]) this.#visit(next, depth);
  }

  #add(queue: string): void {
    if (queue !== '' && !isReserved(queue) && this.queues.size < MOST_QUEUES)
      this.queues.add(queue);
  }
}

type Fields = Readonly<Record<string, unknown>>;

const STANDS_FOR_OTHERS: ReadonlySet<unknown> = new Set([
  'celery.group',
  'celery.chord',
  'celery.chain',
]);

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
