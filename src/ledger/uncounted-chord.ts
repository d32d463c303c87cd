import type { Envelope } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import { hasFollowUps, readEmbed, readSignature } from '../task/signature.ts';
import { endOfChain } from './chain-end.ts';
import type { Ledger } from './ledger.ts';

const WHY =
  "its sender told only Celery's result backend how many parts the chord has, and this worker cannot read that: set celery.chordBackend, and retry it";

/**
 * Why a task of a chord's header must not run: no worker here could tell when the chord is complete, so its body would be waited
 * for in vain. Null: it is in no such chord.
 */
export function uncountedChord(
  envelope: Envelope,
  ledger: Pick<Ledger, 'countsWithCelery' | 'countsUnsized'>,
): string | null {
  const isCounted = ledger.countsWithCelery === true || ledger.countsUnsized === true;
  if (isCounted || !hasFollowUps(envelope.body)) return null;
  try {
    const { chain, chord } = readEmbed(envelope.body);
    if (chord !== null && readOptions(envelope).groupId !== undefined) return whyNot(chord);
    // Of a chain in a header the last step is the part.
    const last = chain?.[0] === undefined ? null : endOfChain(chain[0]);
    return last?.options.groupId === undefined ? null : whyNot(last.chord);
  } catch {
    // The code that reads it next reports what is wrong with it.
    return null;
  }
}

const whyNot = (chord: string | null): string | null =>
  chord !== null && readSignature(chord).chordSize === null ? WHY : null;
