import type { PublishOutcome } from '../broker/broker.ts';
import type { DestinationGuard } from '../broker/destination-guard.ts';
import { isOutlastError, isUnavailable } from '../errors/error.ts';
import type { ResultStore } from '../result/result-store.ts';
import type { Envelope } from '../task/envelope.ts';
import { shownException } from '../wire/python-exceptions.ts';
import type { Reply, ReportedEnd } from '../wire/reply.ts';
import type { Destinations, Judgement } from './destinations.ts';
import {
  afterEnded,
  checkPart,
  chordBody,
  chordFailure,
  stepsAfter,
  reportedEnd,
  type FollowDeps,
} from './follow-up.ts';
import type { ChordAnswer } from './chord-part.ts';
import type {
  AfterEntry,
  BuryItem,
  ChordPartEntry,
  EndedTask,
  ErrorRecord,
  Ledger,
} from './ledger.ts';
import { repliesOf, endForMany, type NeverSent } from './never-sent.ts';

export interface CarryOutDeps {
  readonly guard: DestinationGuard;
  /** How long the broker may take to confirm. */
  readonly limitMs: number;
  readonly ledger: Pick<Ledger, 'joinChord' | 'closeChord' | 'bury' | 'recordNeverSent'>;
  /** Reports why a task is dead to the processes that wait for it; left out: they only learn that it is. */
  readonly results?: ResultStore;
  readonly follow: FollowDeps;
  /** Where messages may have us write. Left out: anywhere. */
  readonly destinations?: Destinations;
}

type Outgoing = Envelope | Reply;

export interface Carried {
  /** The broker has confirmed everything these entries send. */
  readonly done: readonly AfterEntry[];
  readonly undone: readonly Undone[];
}

/**
 * An entry that was not carried out. `unavailable`: the broker could not be asked. `refused`: the broker refused it.
 * `forbidden`: our own rules do. `broken`: the entry does not show what it should send.
 */
export interface Undone {
  readonly entry: AfterEntry;
  readonly kind: 'unavailable' | 'refused' | 'forbidden' | 'broken';
  readonly why: string;
  /** The messages of it that were refused or forbidden. */
  readonly refused: readonly Outgoing[];
  /** Set when only its destination does not answer. */
  readonly retryAfterMs?: number;
}

type Answer = PublishOutcome | { readonly status: 'forbidden'; readonly error: string };

/** Sends what a terminal step left to be sent. Sending it twice does no harm: ids are derived. */
export async function sendEntries(
  entries: readonly AfterEntry[],
  deps: CarryOutDeps,
): Promise<Carried> {
  const outgoing = new Map<AfterEntry, readonly Outgoing[]>();
  const completed = new Map<string, AfterEntry>();
  const undone: Undone[] = [];
  for (const entry of entries) {
    try {
      const sending = await outgoingOf(entry, deps);
      const groupId = sending.length > 0 ? countedIn(entry) : null;
      // A part reported twice in one batch: the first one sends the body.
      outgoing.set(entry, groupId !== null && completed.has(groupId) ? [] : sending);
      if (groupId !== null && !completed.has(groupId)) completed.set(groupId, entry);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      const why = error instanceof Error ? error.message : String(error);
      undone.push({ entry, kind: 'broken', why, refused: [] });
    }
  }
  const answers = await sendAll([...outgoing.values()].flat(), deps);
  const done: AfterEntry[] = [];
  for (const [entry, items] of outgoing) {
    const failed = undoneOf(entry, items, answers);
    if (failed === null) done.push(entry);
    else undone.push(failed);
  }
  for (const [groupId, entry] of completed)
    if (done.includes(entry)) await deps.ledger.closeChord?.(groupId);
  return { done, undone };
}

/** Null: all of it is confirmed. An entry is not given up while any message of it may still be sent. */
function undoneOf(
  entry: AfterEntry,
  items: readonly Outgoing[],
  answers: ReadonlyMap<Outgoing, Answer>,
): Undone | null {
  const refused: Outgoing[] = [];
  let worst: Answer | null = null;
  for (const item of items) {
    const answer = answers.get(item) ?? { status: 'unavailable', error: 'no answer' };
    if (answer.status === 'confirmed') continue;
    if (answer.status === 'refused' || answer.status === 'forbidden') refused.push(item);
    if (worst === null || WEIGHT[answer.status] > WEIGHT[worst.status]) worst = answer;
  }
  if (worst === null) return null;
  const { error: why } = worst;
  // When the broker closes a channel on several messages, that proves nothing about this one.
  const kind = worst.status === 'suspect' ? 'unavailable' : worst.status;
  const { retryAfterMs } = worst as { readonly retryAfterMs?: number };
  return { entry, kind, why, refused, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

const WEIGHT = { confirmed: 0, forbidden: 1, refused: 2, suspect: 3, unavailable: 4 } as const;

/** A follow-up that will not be sent, as a dead letter with its bytes; null for an answer, which is no task. */
export function unsentLetter(item: Outgoing, { kind, why }: Undone): BuryItem | null {
  if ('replyTo' in item) return null;
  const reason = kind === 'forbidden' ? 'ERR_DESTINATION_REFUSED' : 'ERR_FOLLOW_UP_UNSENT';
  const error = { type: reason, message: why, traceback: '' };
  return { kind: 'message', envelope: item, reason, error };
}

/** The chord that a part with a result counts in; if that part sends anything, it is the body. */
const countedIn = (entry: AfterEntry): string | null =>
  'part' in entry && entry.part.result !== null ? entry.part.groupId : null;

async function sendAll(
  outgoing: readonly Outgoing[],
  { guard, limitMs, destinations }: CarryOutDeps,
): Promise<ReadonlyMap<Outgoing, Answer>> {
  const answers = new Map<Outgoing, Answer>();
  const [known, existing, replies]: [Envelope[], Envelope[], Reply[]] = [[], [], []];
  for (const item of outgoing) {
    const judged = judge(item, destinations);
    if (judged.kind === 'refused')
      answers.set(item, {
        status: 'forbidden',
        error: `${judged.destination} is not one that a message may name: ${judged.why}`,
      });
    else if ('replyTo' in item) replies.push(item);
    else (judged.kind === 'known' ? known : existing).push(item);
  }
  const note = (items: readonly Outgoing[], outcomes: readonly PublishOutcome[]): void => {
    for (const [index, outcome] of outcomes.entries())
      answers.set(items[index] as Outgoing, outcome);
  };
  await Promise.all([
    guard.publish(known, limitMs).then(outcomes => note(known, outcomes)),
    guard
      .publish(existing, limitMs, { toExisting: true })
      .then(outcomes => note(existing, outcomes)),
    // A broker that sends no answers has nothing to confirm: the request comes from an earlier configuration.
    guard.answers
      ? guard.reply(replies, limitMs).then(outcomes => note(replies, outcomes))
      : note(
          replies,
          replies.map(() => ({ status: 'confirmed' })),
        ),
  ]);
  return answers;
}

function judge(item: Outgoing, destinations: Destinations | undefined): Judgement {
  if (destinations === undefined) return { kind: 'known' };
  return 'replyTo' in item ? destinations.judgeReply(item.replyTo) : destinations.judge(item);
}

async function outgoingOf(entry: AfterEntry, deps: CarryOutDeps): Promise<readonly Outgoing[]> {
  if ('publish' in entry) return [entry.publish];
  if ('reply' in entry) return [entry.reply];
  if ('part' in entry) return await joinChord(entry, deps);
  if ('unreadable' in entry) throw new TypeError(entry.why);
  const ended = await withError(entry.ended, deps);
  await tellRest(ended, deps);
  const following = whatFollows(ended, deps.follow);
  const told = await answerFirst(following, deps);
  const left = following.filter(next => !told.has(next));
  return (await Promise.all(left.map(next => outgoingOf(next, deps)))).flat();
}

/**
 * Callers of a chord raise the error of a part, if they find it, and else that of the body: so the answers of a part that failed are
 * sent before the chord fails, as Celery does it. Returns what need not be sent again.
 */
async function answerFirst(
  following: readonly AfterEntry[],
  deps: CarryOutDeps,
): Promise<ReadonlySet<AfterEntry>> {
  const answers = following.filter(next => 'reply' in next);
  if (answers.length === 0 || !following.some(next => 'part' in next)) return new Set();
  const outcomes = await sendAll(
    answers.map(({ reply }) => reply),
    deps,
  );
  return new Set(answers.filter(({ reply }) => outcomes.get(reply)?.status === 'confirmed'));
}

/** An entry of the store does not have the error. Most are carried out by the worker that knows it. */
async function withError(ended: EndedTask, { results }: CarryOutDeps): Promise<EndedTask> {
  if (ended.how !== 'dead' || ended.error !== undefined) return ended;
  const error = (await results?.read(ended.envelope.id))?.error;
  return error ? { ...ended, error } : ended;
}

/** The later steps of its chain are over too: callers of Celery wait for the last one. */
async function tellRest(ended: EndedTask, { ledger, follow }: CarryOutDeps): Promise<void> {
  if (ledger.recordNeverSent === undefined) return;
  await tellSteps(stepsAfter(ended, follow), reportedEnd(ended), ended.envelope.id, ledger);
}

async function tellSteps(
  steps: readonly NeverSent[],
  told: ReportedEnd,
  of: string,
  ledger: CarryOutDeps['ledger'],
): Promise<void> {
  const ids = steps.map(({ id }) => id);
  if (ids.length > 0) await ledger.recordNeverSent?.(ids, endForMany(told, ids.length), of);
}

/** A task may be dead because its bytes are unreadable: then its follow-ups are unknown, and the dead letter is the alarm. */
function whatFollows(ended: EndedTask, follow: FollowDeps): readonly AfterEntry[] {
  try {
    return afterEnded(ended, follow).filter(entry => !('part' in entry) || isSound(entry, follow));
  } catch {
    return [];
  }
}

/** A part of a chord whose body can never be sent keeps nothing else from being sent. */
function isSound(entry: ChordPartEntry, follow: FollowDeps): boolean {
  try {
    checkPart(entry, follow);
    return true;
  } catch {
    return false;
  }
}

/** The body of a chord; if the results are too large to send, the body is kept without them. */
async function bodyOf(
  entry: ChordPartEntry,
  answer: Extract<ChordAnswer, { readonly status: 'complete' }>,
  { ledger, follow }: Pick<CarryOutDeps, 'ledger' | 'follow'>,
): Promise<readonly Envelope[]> {
  try {
    return chordBody(entry, answer, follow);
  } catch (error) {
    if (!isOutlastError(error, 'ERR_FOLLOW_UPS_TOO_LARGE')) throw error;
    const { letter } = chordFailure(entry, follow);
    const { code: reason, message } = error;
    const record = { type: reason, message, traceback: '' };
    if (letter !== null)
      await ledger.bury([{ kind: 'message', envelope: letter, reason, error: record }]);
    return [];
  }
}

async function joinChord(
  entry: ChordPartEntry,
  { ledger, follow }: CarryOutDeps,
): Promise<readonly Outgoing[]> {
  const { part } = entry;
  const answer = await ledger.joinChord(part);
  switch (answer.status) {
    case 'open':
      return [];
    case 'complete':
      return await bodyOf(entry, answer, { ledger, follow });
    case 'failed': {
      const { letter, errors, steps } = chordFailure(entry, follow);
      const which =
        answer.taskId === undefined ? `${part.taskId}, part ${part.index}` : answer.taskId;
      const message = `${which} of the chord, did not end with a result`;
      const error = { type: 'ERR_CHORD_FAILED', message, traceback: '' };
      if (letter !== null)
        await ledger.bury([
          { kind: 'message', envelope: letter, reason: 'ERR_CHORD_FAILED', error },
        ]);
      const cause = answer.taskId === undefined ? part.error : answer.cause;
      const of = answer.taskId ?? part.taskId;
      const told = { status: 'FAILURE', error: chordError(of, cause) } as const;
      // A sender without a key chose the ids behind the body.
      const isTrusted = !follow.keyring.isSigning || entry.parent.isSigned === true;
      const named = isTrusted ? steps : steps.filter(({ id }) => id === part.bodyId);
      await tellSteps(named, told, of, ledger);
      return [...errors, ...(follow.answers ? repliesOf(steps, told) : [])];
    }
  }
}

/** What Celery raises for the callers that wait for the body of a chord. */
function chordError(taskId: string, cause: ErrorRecord | undefined): ErrorRecord {
  const how = cause === undefined ? 'did not end with a result' : `raised ${shownException(cause)}`;
  return { type: 'ChordError', message: `Dependency ${taskId} ${how}`, traceback: '' };
}
