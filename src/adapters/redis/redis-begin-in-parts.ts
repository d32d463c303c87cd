import type {
  BeginOpen,
  BeginReply,
  BeginRequest,
  BegunTask,
  MessageAnswer,
  TaskRef,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';

/** Null: no queue. */
type BeginWith = (queue: string | null, request: BeginRequest) => Promise<BeginReply>;

/**
 * One `begin` as one call per queue, in sequence: the result of the first limits the next. A repeat with the same run is
 * a repeat for every queue.
 */
export async function beginInParts(
  request: BeginRequest,
  beginWith: BeginWith,
): Promise<BeginReply> {
  const given = new Given(request);
  let isAsked = false;
  const parts = [...positionsByQueue(request)];
  for (const [index, [queue, positions]] of parts.entries()) {
    const areMessagesAhead = parts.slice(index + 1).some(([, others]) => others.length > 0);
    const part = given.requestOf(queue, positions, areMessagesAhead);
    if (part === null) continue;
    isAsked = true;
    const reply = await beginWith(queue, part);
    if (reply.status === 'closed') return reply;
    given.add(reply, positions);
  }
  return isAsked ? given.reply() : await beginWith(null, { ...request, queues: [] });
}

/** The requested queues in order, then those of other messages, with the indexes of the messages. */
function positionsByQueue({
  queues,
  messages,
}: BeginRequest): ReadonlyMap<string, readonly number[]> {
  const positions = new Map<string, number[]>(queues.map(queue => [queue, []]));
  for (const [position, { queue }] of messages.entries()) {
    positions.set(queue, [...(positions.get(queue) ?? []), position]);
  }
  return positions;
}

/** What a `begin` got so far. */
class Given {
  readonly #request: BeginRequest;
  readonly #begun: BegunTask[] = [];
  readonly #answers: MessageAnswer[];
  readonly #expired: TaskRef[] = [];
  readonly #refused: TaskRef[] = [];
  readonly #unreadable: TaskRef[] = [];
  #nextDueMs: number | null = null;
  #left: number;
  #suspects: number;

  constructor(request: BeginRequest) {
    this.#request = request;
    this.#left = request.limit;
    this.#suspects = request.suspects;
    this.#answers = request.messages.map(() => 'held');
  }

  /** Null: there is nothing to ask. Suspects among messages still to come go before waiting tasks. */
  requestOf(
    queue: string,
    positions: readonly number[],
    areMessagesAhead: boolean,
  ): BeginRequest | null {
    const isServed = this.#request.queues.includes(queue);
    const limit = isServed ? this.#left : 0;
    if (limit === 0 && positions.length === 0) return null;
    return {
      ...this.#request,
      queues: isServed ? [queue] : [],
      limit,
      suspects: areMessagesAhead && positions.length === 0 ? 0 : this.#suspects,
      messages: positions.map(position => this.#request.messages[position] as Envelope),
    };
  }

  add(reply: BeginOpen, positions: readonly number[]): void {
    const ofMessages = new Set(reply.answers.length > 0 ? this.#idsAt(positions) : []);
    this.#begun.push(...reply.begun);
    this.#expired.push(...reply.expired);
    this.#refused.push(...reply.refused);
    this.#unreadable.push(...(reply.unreadable ?? []));
    this.#left -= reply.begun.filter(({ id }) => !ofMessages.has(id)).length;
    this.#left = Math.max(0, this.#left);
    this.#suspects = Math.max(0, this.#suspects - reply.begun.filter(one => one.isSuspect).length);
    for (const [index, position] of positions.entries()) {
      this.#answers[position] = reply.answers[index] ?? 'held';
    }
    if (reply.nextDueMs === null) return;
    this.#nextDueMs = Math.min(this.#nextDueMs ?? Infinity, reply.nextDueMs);
  }

  #idsAt(positions: readonly number[]): string[] {
    return positions.map(position => this.#request.messages[position]?.id ?? '');
  }

  reply(): BeginOpen {
    return {
      status: 'open',
      begun: this.#begun,
      answers: this.#answers,
      expired: this.#expired,
      refused: this.#refused,
      ...(this.#unreadable.length > 0 ? { unreadable: this.#unreadable } : {}),
      nextDueMs: this.#begun.length > 0 ? null : this.#nextDueMs,
    };
  }
}
