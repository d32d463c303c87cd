import { hasMark, MARKS } from '../../task/marks.ts';
import {
  type BeginOpen,
  type BeginReply,
  type BeginRequest,
  type BegunTask,
  type MessageAnswer,
  type TaskRef,
  isSuspect,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import { BEGIN_ANSWERS } from './record-layout.ts';
import { packMessages } from './redis-batch.ts';
import type { RedisArgument } from './redis-connection.ts';
import { type Rank, queueKeys } from './redis-keys.ts';
import { pack } from './redis-pack.ts';
import { envelopeOf, isInline, readRecord } from './redis-record.ts';
import { readRef } from './redis-replies.ts';

/** By number, from 1. `begunNew`: begun without an earlier record, so the script returns nothing else about it. */
const ANSWERS = Object.keys(BEGIN_ANSWERS).map(name =>
  name === 'begunNew' ? 'begun' : name,
) as readonly MessageAnswer[];

/** The first arguments of the script. `known` is the highest generation that this process has seen. */
export function beginArguments(request: BeginRequest, known: number, rank: Rank): RedisArgument[] {
  const { worker, run, queues, limit, suspects, messages, crashBudgets, tags } = request;
  return [
    worker,
    run,
    limit,
    suspects,
    known,
    pack(queues),
    pack(new Map(Object.entries(crashBudgets))),
    pack(packMessages(messages, tags ?? [], rank)),
  ];
}

/** The keys where the broker holds unacknowledged elements, by queue. */
export function heldKeys(
  { messages }: BeginRequest,
  consumer: string,
): readonly (readonly string[])[] {
  const queues = new Set(messages.map(({ queue }) => queue));
  return [...queues].map(queue => [queue, queueKeys(queue, false).heldPrefix + consumer]);
}

type OfMessage = readonly [
  index: number,
  epoch: number,
  failures: number,
  crashes: number,
  isSuspect: number,
  checkpointSeq: number,
  checkpoint: Buffer | null,
];
type OfWaiting = readonly [
  id: Buffer,
  record: Buffer,
  body: Buffer | null,
  checkpoint: Buffer | null,
];

/** The script's reply after its first element. */
export type BeginReplyParts = readonly [
  answers: readonly number[],
  ofMessages: readonly OfMessage[],
  ofWaiting: readonly OfWaiting[],
  expired: readonly (readonly [Buffer, Buffer, Buffer])[],
  nextDueMs: number | null | undefined,
  newEpoch: number,
  begunMs: number,
  refused: readonly (readonly [Buffer, Buffer, Buffer])[],
];

/** Values shared by the new tasks of one call. */
export interface NewBatch {
  readonly worker: string;
  readonly run: string;
  readonly epoch: number;
  readonly begunMs: number;
  readonly crashBudgets: Readonly<Record<string, number>>;
}

/** A task without an earlier record: its whole record is known here, as long as its run adds nothing to it. */
export class NewTask implements BegunTask {
  readonly id: string;
  readonly epoch: number;
  readonly run: string;
  readonly envelope: Envelope;
  readonly failures = 0;
  readonly crashes = 0;
  readonly isSuspect = false;
  readonly checkpoint = null;
  readonly checkpointSeq = 0;
  readonly batch: NewBatch;

  constructor(envelope: Envelope, batch: NewBatch) {
    this.id = envelope.id;
    this.epoch = batch.epoch;
    this.run = batch.run;
    this.envelope = envelope;
    this.batch = batch;
  }

  /** The record is complete: its body is inline. The path of a task stays when it is over, which costs a look at the record. */
  get isPlain(): boolean {
    return isInline(this.envelope) && !hasMark(this.envelope.options, MARKS.path);
  }
}

export interface BegunRead {
  readonly reply: BeginOpen;
  /** Ids of begun tasks whose records cannot be read. */
  readonly broken: readonly string[];
}

export function readBeginReply(
  request: BeginRequest,
  parts: BeginReplyParts,
  rank: Rank,
): BegunRead {
  const [answers, ofMessages, ofWaiting, expired, nextDueMs, epoch, begunMs, refused] = parts;
  const { messages, worker, run, crashBudgets } = request;
  const batch: NewBatch = { worker, run, epoch, begunMs, crashBudgets };
  const ofNew = answers.flatMap((answer, index) =>
    answer === BEGIN_ANSWERS.begunNew ? [new NewTask(messages[index] as Envelope, batch)] : [],
  );
  const broken: string[] = [];
  const waiting = ofWaiting.flatMap(task => begunWaiting(task, { run, rank }, broken) ?? []);
  const reply: BeginOpen = {
    status: 'open',
    begun: [...ofNew, ...ofMessages.map(task => begunMessage(task, messages, run)), ...waiting],
    answers: answers.map(answer => ANSWERS[answer - 1] ?? 'held'),
    expired: expired.map(readRef),
    refused: refused.map(readRef),
    nextDueMs: nextDueMs ?? null,
  };
  return { reply, broken };
}

/** Its bytes have the same digest as those on record, so they are equal. */
function begunMessage(task: OfMessage, messages: readonly Envelope[], run: string): BegunTask {
  const [index, epoch, failures, crashes, suspected, checkpointSeq, checkpoint] = task;
  const envelope = messages[index - 1] as Envelope;
  return {
    id: envelope.id,
    epoch,
    run,
    envelope,
    failures,
    crashes,
    isSuspect: suspected === 1,
    checkpoint: copyOf(checkpoint),
    checkpointSeq,
  };
}

function begunWaiting(
  [rawId, raw, body, checkpoint]: OfWaiting,
  { run, rank }: { readonly run: string; readonly rank: Rank },
  broken: string[],
): BegunTask | null {
  const id = String(rawId);
  const record = readRecord(raw);
  if (!record.isWhole) {
    broken.push(id);
    return null;
  }
  const { epoch, failures, crashes, crashBudget, checkpointSeq } = record;
  return {
    id,
    epoch,
    run,
    envelope: envelopeOf(id, record, copyOf(body), rank),
    failures,
    crashes,
    isSuspect: isSuspect(crashes, crashBudget),
    checkpoint: copyOf(checkpoint),
    checkpointSeq,
  };
}

/** The bytes of a reply are a view of the whole reply, and would keep all of it in memory. */
function copyOf(bytes: Buffer | null | undefined): Uint8Array | null {
  return bytes ? new Uint8Array(bytes) : null;
}

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
