import type { Envelope } from '../task/envelope.ts';
import type {
  BeginOpen,
  BeginReply,
  BeginRequest,
  BegunTask,
  BuryItem,
  CommitItem,
  FollowUp,
} from './ledger.ts';
import { slicesWithin } from '../runtime/wakeable.ts';

/**
 * Bytes that one call carries to a ledger, unless a single item has more: the store serves no other client while it reads
 * them, and every store limits the size of a call.
 */
export const BATCH_BYTES = 8_388_608;
/** Bytes of follow-ups that one call lists, unless a single one has more. */
export const AFTER_LIST_BYTES = 4_194_304;
/** Messages that one call begins. */
export const BEGIN_COUNT = 1_000;

export const bytesOfEnvelope = ({ body, options }: Envelope): number =>
  body.length + options.length;

/** For a run only the reason is sent. */
export const bytesOfBury = (item: BuryItem): number =>
  item.kind === 'message' ? bytesOfEnvelope(item.envelope) : 0;

export function bytesOfCommit({ outcome, after }: CommitItem): number {
  const result = outcome.kind === 'done' ? (outcome.result?.length ?? 0) : 0;
  let bytes = result;
  for (const entry of after) bytes += bytesOfFollowUp(entry);
  return bytes;
}

/** Added for every entry: the store handles each as a separate step, however short it is. */
const ENTRY_BYTES = 1_024;

function bytesOfFollowUp(entry: FollowUp): number {
  if ('publish' in entry) return ENTRY_BYTES + bytesOfEnvelope(entry.publish);
  if ('reply' in entry) return ENTRY_BYTES + entry.reply.body.length;
  return ENTRY_BYTES + entry.body.length + (entry.part.result?.length ?? 0);
}

type Begin = (request: BeginRequest) => Promise<BeginReply>;

/** Splits a `begin` into several calls when it has too many messages, or too large ones. Most fit into one. */
export async function beginInSlices(request: BeginRequest, begin: Begin): Promise<BeginReply> {
  if (isSmall(request)) return await begin(request);
  const limits = { count: BEGIN_COUNT, bytes: BATCH_BYTES, bytesOf: bytesOfEnvelope };
  const slices = slicesWithin(request.messages, limits);
  return await beginAll(
    partsOf(
      request,
      slices.map(slice => slice.length),
    ),
    begin,
  );
}

function isSmall({ messages }: BeginRequest): boolean {
  if (messages.length > BEGIN_COUNT) return false;
  let bytes = 0;
  for (const message of messages) bytes += bytesOfEnvelope(message);
  return bytes <= BATCH_BYTES;
}

/** The same request, split by these message counts. Only the last part asks for waiting tasks. */
export function partsOf(request: BeginRequest, counts: readonly number[]): readonly BeginRequest[] {
  let at = 0;
  return counts.map((count, index) => {
    const [from, to] = [at, (at += count)];
    const { messages, tags } = request;
    return {
      ...request,
      ...(index === counts.length - 1 ? {} : { queues: [], limit: 0 }),
      messages: messages.slice(from, to),
      ...(tags === undefined ? {} : { tags: tags.slice(from, to) }),
    };
  });
}

/**
 * Sends the parts of one request one after the other. All of them name its run, so a part that is repeated after a lost
 * reply also gets the tasks of the other parts; each task counts once.
 */
export async function beginAll(parts: readonly BeginRequest[], begin: Begin): Promise<BeginReply> {
  const replies: BeginOpen[] = [];
  const begun = new Map<string, BegunTask>();
  for (const part of parts) {
    const suspected = [...begun.values()].filter(task => task.isSuspect).length;
    const reply = await begin({ ...part, suspects: Math.max(0, part.suspects - suspected) });
    if (reply.status === 'closed') return reply;
    replies.push(reply);
    for (const task of reply.begun) if (!begun.has(task.id)) begun.set(task.id, task);
  }
  const unreadable = replies.flatMap(reply => reply.unreadable ?? []);
  return {
    status: 'open',
    ...(unreadable.length > 0 ? { unreadable } : {}),
    begun: [...begun.values()],
    answers: replies.flatMap(({ answers }) => answers),
    expired: replies.flatMap(({ expired }) => expired),
    refused: replies.flatMap(({ refused }) => refused),
    nextDueMs: begun.size > 0 ? null : (replies.at(-1)?.nextDueMs ?? null),
  };
}
