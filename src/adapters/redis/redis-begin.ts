import type { BeginOpen, BeginRequest, BegunTask, MessageAnswer } from '../../ledger/ledger.ts';
import { isSuspect } from '../../ledger/suspect.ts';
import type { Envelope } from '../../task/envelope.ts';
import { packMessages } from './redis-batch.ts';
import type { RedisArgument } from './redis-connection.ts';
import { pack } from './redis-pack.ts';
import { envelopeOf, isInline, readRecord } from './redis-record.ts';
import { readRef } from './redis-replies.ts';

const ANSWERS: readonly MessageAnswer[] = ['begun', 'held', 'done', 'expired', 'conflict', 'begun'];
/** Begun, and no record knew it before: the script says no more of it. */
const BEGUN_NEW = 6;

/** What the script is told, except for the identity of the server. */
export function beginArguments(
  request: BeginRequest,
  identity: readonly [runId: string, known: number],
): RedisArgument[] {
  const { worker, run, queues, limit, suspects, messages, crashBudgets, tags } = request;
  return [
    worker,
    run,
    limit,
    suspects,
    ...identity,
    pack(queues),
    pack(new Map(Object.entries(crashBudgets))),
    pack(packMessages(messages, tags ?? [])),
  ];
}

type OfMessage = readonly [
  place: number,
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

/** The reply of the script after its first word. */
export type BeginReplyParts = readonly [
  answers: readonly number[],
  ofMessages: readonly OfMessage[],
  ofWaiting: readonly OfWaiting[],
  expired: readonly (readonly [Buffer, Buffer, Buffer])[],
  nextDueMs: number | null | undefined,
  newEpoch: number,
  begunMs: number,
];

/** What the new tasks of one call have in common. */
export interface NewBatch {
  readonly worker: string;
  readonly run: string;
  readonly epoch: number;
  readonly begunMs: number;
  readonly crashBudgets: Readonly<Record<string, number>>;
}

/** A task that no record knew: all of its record is known here, as long as its run adds nothing to it. */
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

  /** Its record is all there is: its body is in it. */
  get isPlain(): boolean {
    return isInline(this.envelope);
  }
}

export function readBeginReply(request: BeginRequest, parts: BeginReplyParts): BeginOpen {
  const [answers, ofMessages, ofWaiting, expired, nextDueMs, epoch, begunMs] = parts;
  const { messages, worker, run, crashBudgets } = request;
  const batch: NewBatch = { worker, run, epoch, begunMs, crashBudgets };
  const ofNew = answers.flatMap((answer, place) =>
    answer === BEGUN_NEW ? [new NewTask(messages[place] as Envelope, batch)] : [],
  );
  return {
    status: 'open',
    begun: [
      ...ofNew,
      ...ofMessages.map(task => begunMessage(task, messages, run)),
      ...ofWaiting.map(task => begunWaiting(task, run)),
    ],
    answers: answers.map(answer => ANSWERS[answer - 1] ?? 'held'),
    expired: expired.map(readRef),
    nextDueMs: nextDueMs ?? null,
  };
}

/** Its bytes have the digest of those on record: they are the same. */
function begunMessage(task: OfMessage, messages: readonly Envelope[], run: string): BegunTask {
  const [place, epoch, failures, crashes, suspected, checkpointSeq, checkpoint] = task;
  const envelope = messages[place - 1] as Envelope;
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

function begunWaiting([rawId, raw, body, checkpoint]: OfWaiting, run: string): BegunTask {
  const id = String(rawId);
  const record = readRecord(raw);
  const { epoch, failures, crashes, crashBudget, checkpointSeq } = record;
  return {
    id,
    epoch,
    run,
    envelope: envelopeOf(id, record, copyOf(body)),
    failures,
    crashes,
    isSuspect: isSuspect(crashes, crashBudget),
    checkpoint: copyOf(checkpoint),
    checkpointSeq,
  };
}

/** The bytes of a reply are part of whatever came with it, and would keep all that in memory. */
function copyOf(bytes: Buffer | null | undefined): Uint8Array | null {
  return bytes ? new Uint8Array(bytes) : null;
}
