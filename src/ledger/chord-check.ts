import { advise, ok, problem, spoken, type Check, type CheckLimits } from '../telemetry/checkup.ts';
import type { LedgerReads } from './ledger-reads.ts';
import type { OpenChord } from './open-chord.ts';

/** Chords that are examined, and chords that are named. */
const LOOKED_AT = 1_000;
const NAMED = 5;

/** Chords that have waited for too long. A failed part has a dead letter; a missing part leaves no other trace. */
export async function checkChords(
  reads: Pick<LedgerReads, 'openChords'>,
  { maxChordMs }: CheckLimits,
): Promise<Check> {
  const { open, oldest } = await reads.openChords(LOOKED_AT);
  const late = oldest.filter(({ ageMs }) => ageMs > maxChordMs);
  const silent = late.filter(({ failed }) => failed === 0);
  const named = (silent.length > 0 ? silent : late).slice(0, NAMED);
  const details = { open, late: late.length, silent: silent.length, chords: named };
  if (late.length === 0) {
    return ok('chords', `no chord is open for longer than ${spoken(maxChordMs)}`, { open });
  }
  const what = `${late.length} chords are open for longer than ${spoken(maxChordMs)}`;
  const names = named.map(describe).join(', ');
  if (silent.length === 0) {
    const advice =
      'Retry the dead letters of their parts; what was discarded or cancelled stays so.';
    return advise('chords', `${what}, all with parts that failed: ${names}`, advice, details);
  }
  const advice =
    'Look for the parts that have not come: npx outlast stats, and celery inspect where Python runs them. Beside RabbitMQ a resurrector counts those.';
  return problem(
    'chords',
    `${what}, ${silent.length} without a failure: ${names}`,
    advice,
    details,
  );
}

const describe = ({ groupId, body, parts, size }: OpenChord): string =>
  `${groupId} (${parts} of ${size ?? 'unknown'}${body === null ? '' : ` for ${body}`})`;
