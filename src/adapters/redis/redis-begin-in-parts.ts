import type {
  BeginOpen,
  BeginReply,
  BeginRequest,
  BegunTask,
  MessageAnswer,
  TaskRef,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';

/** Null: of no queue. */
type BeginWith = (queue: string | null, request: BeginRequest) => Promise<BeginReply>;

/**
 * One `begin` as a call for each queue, one after the other: what the first gave counts for the next. A repeat with the
 * same run is a repeat with every queue.
 */
export async function beginInParts(
  request: BeginRequest,
  beginWith: BeginWith,
): Promise<BeginReply> {
  const given = new Given(request);
  let isAsked = false;
  const parts = [...placesByQueue(request)];
  for (const [index, [queue, places]] of parts.entries()) {
    const areMessagesAhead = parts.slice(index + 1).some(([, others]) => others.length > 0);
    const part = given.requestOf(queue, places, areMessagesAhead);
    if (part === null) continue;
    isAsked = true;
    const reply = await beginWith(queue, part);
    if (reply.status === 'closed') return reply;
    given.add(reply, places);
  }
  return isAsked ? given.reply() : await beginWith(null, { ...request, queues: [] });
}

/** The queues asked for in their order, then those of other messages, with the places of the messages. */
function placesByQueue({ queues, messages }: BeginRequest): ReadonlyMap<string, readonly number[]> {
  const places = new Map<string, number[]>(queues.map(queue => [queue, []]));
  for (const [place, { queue }] of messages.entries()) {
    places.set(queue, [...(places.get(queue) ?? []), place]);
  }
  return places;
}

/** What a `begin` was given so far. */
class Given {
  readonly #request: BeginRequest;
  readonly #begun: BegunTask[] = [];
  readonly #answers: MessageAnswer[];
  readonly #expired: TaskRef[] = [];
  #nextDueMs: number | null = null;
  #left: number;
  #suspects: number;

  constructor(request: BeginRequest) {
    this.#request = request;
    this.#left = request.limit;
    this.#suspects = request.suspects;
    this.#answers = request.messages.map(() => 'held');
  }

  /** Null: there is nothing to ask. Suspects among messages still to come go before those that wait. */
  requestOf(
    queue: string,
    places: readonly number[],
    areMessagesAhead: boolean,
  ): BeginRequest | null {
    const isServed = this.#request.queues.includes(queue);
    const limit = isServed ? this.#left : 0;
    if (limit === 0 && places.length === 0) return null;
    return {
      ...this.#request,
      queues: isServed ? [queue] : [],
      limit,
      suspects: areMessagesAhead && places.length === 0 ? 0 : this.#suspects,
      messages: places.map(place => this.#request.messages[place] as Envelope),
    };
  }

  add(reply: BeginOpen, places: readonly number[]): void {
    const ofMessages = new Set(reply.answers.length > 0 ? this.#idsAt(places) : []);
    this.#begun.push(...reply.begun);
    this.#expired.push(...reply.expired);
    this.#left -= reply.begun.filter(({ id }) => !ofMessages.has(id)).length;
    this.#left = Math.max(0, this.#left);
    this.#suspects = Math.max(0, this.#suspects - reply.begun.filter(one => one.isSuspect).length);
    for (const [index, place] of places.entries()) {
      this.#answers[place] = reply.answers[index] ?? 'held';
    }
    if (reply.nextDueMs === null) return;
    this.#nextDueMs = Math.min(this.#nextDueMs ?? Infinity, reply.nextDueMs);
  }

  #idsAt(places: readonly number[]): string[] {
    return places.map(place => this.#request.messages[place]?.id ?? '');
  }

  reply(): BeginOpen {
    return {
      status: 'open',
      begun: this.#begun,
      answers: this.#answers,
      expired: this.#expired,
      nextDueMs: this.#begun.length > 0 ? null : this.#nextDueMs,
    };
  }
}
