import type { Envelope } from '../task/envelope.ts';
import { readCelery } from '../config/celery.ts';
import { readOptions } from '../task/read-options.ts';
import { type Destination, Routes } from './routes.ts';
import type { Routing } from './signature-options.ts';
import type { PublishManner } from '../broker/broker.ts';
import { decodeJson } from '../task/json.ts';
import { hasFollowUps, isChordLink, readEmbed } from '../task/signature.ts';

export interface DestinationRules {
  /** Queues that the configuration knows: they are declared where they are missing. */
  readonly queues: Iterable<string>;
  /** Globs of further queues; of exchanges, if prefixed with `exchange:`. */
  readonly allowed: readonly string[];
  /** Where tasks go whose sender named no queue. Left out: to `celery`. */
  readonly routes?: Routes;
}

/**
 * `known`: treated like a queue of our own. `existing`: only if it exists already, declared the way Celery does it.
 * `refused`: never.
 */
export type Judgement =
  | { readonly kind: 'known' | 'existing' }
  | { readonly kind: 'refused'; readonly destination: string; readonly why: string };

const KNOWN: Judgement = { kind: 'known' };
const EXISTING: Judgement = { kind: 'existing' };

/**
 * Where messages may have us write. The sender of a message chooses its links, chords and `reply_to`; our worker has more
 * rights at the broker than the sender, and must not lend them to him.
 */
export class Destinations {
  readonly #queues: ReadonlySet<string>;
  readonly #queueGlobs: readonly string[];
  readonly #exchangeGlobs: readonly string[];
  readonly #routes: Routes;

  constructor({ queues, allowed, routes = PLAIN_ROUTES }: DestinationRules) {
    this.#routes = routes;
    this.#queues = new Set([...queues, ...routes.queues]);
    this.#queueGlobs = allowed.filter(glob => !glob.startsWith(EXCHANGE));
    this.#exchangeGlobs = allowed
      .filter(glob => glob.startsWith(EXCHANGE))
      .map(glob => glob.slice(EXCHANGE.length));
  }

  /** Where a task goes whose sender named no queue: our own configuration decides. */
  destinationOf(name: string, otherwise?: string): Destination {
    return this.#routes.destinationOf(name, otherwise);
  }

  judge(envelope: Envelope): Judgement {
    const { exchange = '', routingKey } = readOptions(envelope);
    if (exchange === '') return this.#judgeQueue(envelope);
    if (this.#queues.has(exchange) || matchesAny(this.#exchangeGlobs, exchange)) return KNOWN;
    const route = this.destinationOf(envelope.name);
    if (route.exchange === exchange && route.routingKey === routingKey) return KNOWN;
    const destination = `exchange ${exchange}`;
    return { kind: 'refused', destination, why: `${EXCHANGE}${exchange} is not allowed` };
  }

  #judgeQueue({ name, queue }: Envelope): Judgement {
    if (this.#queues.has(queue) || matchesAny(this.#queueGlobs, queue)) return KNOWN;
    // A function may name queues that are in no table.
    const route = this.destinationOf(name);
    if (route.exchange === undefined && route.queue === queue) return KNOWN;
    if (!isReserved(queue)) return EXISTING;
    const why = 'names like this belong to Outlast, Celery or kombu themselves';
    return { kind: 'refused', destination: `queue ${queue}`, why };
  }

  /** Senders wait at their own reply queues, whose names follow patterns that no other queue uses. */
  judgeReply(replyTo: string): Judgement {
    if (REPLY_QUEUES.some(pattern => pattern.test(replyTo))) return KNOWN;
    if (matchesAny(this.#queueGlobs, replyTo)) return KNOWN;
    const why = 'senders of Celery are answered at queues that are named by a UUID';
    return { kind: 'refused', destination: `queue ${replyTo}`, why };
  }
}

/** For what follows a task; without destinations, where broker and ledger are one database, nothing is routed. */
export const routing = (destinations: Destinations | undefined): Pick<Routing, 'routeOf'> =>
  destinations === undefined
    ? {}
    : { routeOf: (name, otherwise) => destinations.destinationOf(name, otherwise) };

const EXCHANGE = 'exchange:';
const PLAIN_ROUTES = new Routes(readCelery({}), () => undefined);

/** Keys of ours, of kombu's Redis transport and of Celery's results, and the queues of remote control and events. */
const RESERVED = /^(outlast:|_kombu|unacked|celery-task|celeryev)|\.pidbox$|\p{Cc}/u;

const isReserved = (queue: string): boolean => RESERVED.test(queue);

const REPLY_QUEUES: readonly RegExp[] = [
  // `rpc://`, and the names that other clients have the server choose.
  /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i,
  /^amq\.(gen-|rabbitmq\.reply-to)/,
  /\.reply\.celery\.pidbox$/,
];

const matchesAny = (globs: readonly string[], text: string): boolean =>
  globs.some(glob => matchesGlob(glob, text));

/** `*` is any text. Each star takes as little as it can, once: the time is bounded by pattern length times text length. */
function matchesGlob(glob: string, text: string): boolean {
  const [first = '', ...rest] = glob.split('*');
  if (rest.length === 0) return glob === text;
  const last = rest.pop() ?? '';
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
}

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
