import type { BeginOpen, BeginRequest, BegunTask, MessageAnswer } from '../../ledger/ledger.ts';
import { isSuspect } from '../../ledger/suspect.ts';
import type { Envelope } from '../../task/envelope.ts';
import { pack } from './redis-pack.ts';
import type { RedisArgument } from './redis-connection.ts';
import { envelopeOf, messageParts, readRecord } from './redis-record.ts';
import { readRef } from './redis-replies.ts';

const ANSWERS: readonly MessageAnswer[] = ['begun', 'held', 'done', 'expired', 'conflict'];

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
    pack(messages.map((message, place) => [...messageParts(message), tags?.[place] ?? ''])),
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
];

export function readBeginReply(request: BeginRequest, parts: BeginReplyParts): BeginOpen {
  const [answers, ofMessages, ofWaiting, expired, nextDueMs] = parts;
  const { messages, run } = request;
  return {
    status: 'open',
    begun: [
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
