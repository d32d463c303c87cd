import type { Broker, PublishOutcome } from '../broker/broker.ts';
import type { ResultStore } from '../result/result-store.ts';
import type { Envelope } from '../task/envelope.ts';
import { wantsReply, type Reply } from '../wire/reply.ts';
import { afterEnded, checkPart, chordBody, chordFailure, type FollowDeps } from './follow-up.ts';
import type { AfterEntry, ChordPartEntry, EndedEntry, Ledger } from './ledger.ts';

export interface CarryOutDeps {
  readonly broker: Pick<Broker, 'publish' | 'reply'>;
  readonly ledger: Pick<Ledger, 'after' | 'joinChord' | 'closeChord' | 'bury'>;
  /** Says why a task is dead, to those who wait for it; left out: they are told that it is. */
  readonly results?: ResultStore;
  readonly follow: FollowDeps;
}

type SendDeps = Omit<CarryOutDeps, 'ledger'> & {
  readonly ledger: Pick<Ledger, 'joinChord' | 'closeChord' | 'bury'>;
};

type Outgoing = Envelope | Reply;

/**
 * Sends what a terminal step left to be sent, and strikes off what the broker confirmed: so many. Twice does no harm: ids
 * derive.
 */
export async function carryOut(
  entries: readonly AfterEntry[],
  deps: CarryOutDeps,
): Promise<number> {
  const done = await sendEntries(entries, deps);
  await deps.ledger.after.strike(done.map(entry => entry.key));
  return done.length;
}

/** Those of them that are carried out: what they send is confirmed. */
export async function sendEntries(
  entries: readonly AfterEntry[],
  deps: SendDeps,
): Promise<readonly AfterEntry[]> {
  const outgoing: (readonly Outgoing[])[] = [];
  const completed = new Map<string, AfterEntry>();
  for (const entry of entries) {
    const sending = await outgoingOf(entry, deps);
    const groupId = sending.length > 0 ? countedIn(entry) : null;
    // Told twice in one go: the first sends the body.
    outgoing.push(groupId !== null && completed.has(groupId) ? [] : sending);
    if (groupId !== null && !completed.has(groupId)) completed.set(groupId, entry);
  }
  const confirmed = await sendAll(outgoing.flat(), deps);
  const done = entries.filter((_, index) =>
    (outgoing[index] ?? []).every(item => confirmed.has(item)),
  );
  for (const [groupId, entry] of completed)
    if (done.includes(entry)) await deps.ledger.closeChord?.(groupId);
  return done;
}

/** The chord that a part with a result counts in; where something is to be sent then, it is the body. */
const countedIn = (entry: AfterEntry): string | null =>
  'part' in entry && entry.part.result !== null ? entry.part.groupId : null;

/** Those of them that the broker has confirmed. */
async function sendAll(
  outgoing: readonly Outgoing[],
  { broker }: SendDeps,
): Promise<ReadonlySet<Outgoing>> {
  const isReply = (item: Outgoing): item is Reply => 'replyTo' in item;
  const replies = outgoing.filter(isReply);
  const messages = outgoing.filter((item): item is Envelope => !isReply(item));
  const published = await broker.publish(messages);
  // A broker that answers nobody has nothing to confirm: the wish is from the time of another configuration.
  const answered = replies.length === 0 ? [] : await broker.reply?.(replies);
  const isConfirmed = (outcome: PublishOutcome | undefined): boolean =>
    outcome?.status === 'confirmed';
  return new Set<Outgoing>([
    ...messages.filter((_, index) => isConfirmed(published[index])),
    ...replies.filter((_, index) => answered === undefined || isConfirmed(answered[index])),
  ]);
}

async function outgoingOf(entry: AfterEntry, deps: SendDeps): Promise<readonly Outgoing[]> {
  if ('publish' in entry) return [entry.publish];
  if ('reply' in entry) return [entry.reply];
  if ('part' in entry) return await joinChord(entry, deps);
  const following = await whatFollows(entry, deps);
  return (await Promise.all(following.map(next => outgoingOf(next, deps)))).flat();
}

/** A task may be dead because nobody can read its bytes: then nobody knows what should follow, and it is its own alarm. */
async function whatFollows(
  { ended }: EndedEntry,
  { follow, results }: SendDeps,
): Promise<readonly AfterEntry[]> {
  const isAsked = follow.answers && ended.how === 'dead' && wantsReply(ended.envelope);
  const error = ended.error ?? (isAsked ? (await results?.read(ended.envelope.id))?.error : null);
  try {
    const following = afterEnded(error ? { ...ended, error } : ended, follow);
    for (const entry of following) if ('part' in entry) checkPart(entry, follow);
    return following;
  } catch {
    return [];
  }
}

async function joinChord(
  entry: ChordPartEntry,
  { ledger, follow }: SendDeps,
): Promise<readonly Envelope[]> {
  const { part } = entry;
  const answer = await ledger.joinChord(part);
  switch (answer.status) {
    case 'open':
      return [];
    case 'complete':
      return chordBody(entry, answer.results, follow);
    case 'failed': {
      const { letter, errors } = chordFailure(entry, follow);
      const which =
        answer.taskId === undefined ? `${part.taskId}, part ${part.index}` : answer.taskId;
      const message = `${which} of the chord, did not end with a result`;
      const error = { type: 'ERR_CHORD_FAILED', message, traceback: '' };
      if (letter !== null)
        await ledger.bury([
          { kind: 'message', envelope: letter, reason: 'ERR_CHORD_FAILED', error },
        ]);
      return errors;
    }
  }
}
