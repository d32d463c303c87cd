import type { Broker } from '../broker/broker.ts';
import type { Envelope } from '../task/envelope.ts';
import { afterEnded, chordBody, chordFailure, type FollowDeps } from './follow-up.ts';
import type { AfterEntry, ChordPartEntry, EndedEntry, Ledger } from './ledger.ts';

export interface CarryOutDeps {
  readonly broker: Pick<Broker, 'publish'>;
  readonly ledger: Pick<Ledger, 'after' | 'joinChord' | 'bury'>;
  readonly follow: FollowDeps;
}

/** Sends what a terminal step left to be sent, and strikes off what the broker confirmed. Twice does no harm: ids derive. */
export async function carryOut(entries: readonly AfterEntry[], deps: CarryOutDeps): Promise<void> {
  const { broker, ledger } = deps;
  const messages: Envelope[] = [];
  const lengths: number[] = [];
  for (const entry of entries) {
    const ofEntry = await messagesOf(entry, deps);
    messages.push(...ofEntry);
    lengths.push(ofEntry.length);
  }
  const outcomes = (await broker.publish(messages)).values();
  const done = entries.filter((_, index) =>
    // Every one is looked at: the next entry's outcomes come after them.
    Array.from({ length: lengths[index] ?? 0 }, () => outcomes.next().value?.status).every(
      status => status === 'confirmed',
    ),
  );
  await ledger.after.strike(done.map(entry => entry.key));
}

async function messagesOf(entry: AfterEntry, deps: CarryOutDeps): Promise<readonly Envelope[]> {
  if ('publish' in entry) return [entry.publish];
  if ('part' in entry) return await joinChord(entry, deps);
  const following = whatFollows(entry, deps);
  return (await Promise.all(following.map(next => messagesOf(next, deps)))).flat();
}

/** A task may be dead because nobody can read its bytes: then nobody knows what should follow, and it is its own alarm. */
function whatFollows({ ended }: EndedEntry, { follow }: CarryOutDeps): readonly AfterEntry[] {
  try {
    return afterEnded(ended, follow);
  } catch {
    return [];
  }
}

async function joinChord(
  entry: ChordPartEntry,
  { ledger, follow }: CarryOutDeps,
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
      const message = `${part.taskId}, part ${part.index} of the chord, did not end with a result`;
      const error = { type: 'ERR_CHORD_FAILED', message, traceback: '' };
      if (letter !== null)
        await ledger.bury([
          { kind: 'message', envelope: letter, reason: 'ERR_CHORD_FAILED', error },
        ]);
      return errors;
    }
  }
}
