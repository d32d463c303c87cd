import { chordOf } from '../../task/chord-link.ts';
import { itemsOf } from '../../task/json-slices.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { readCeleryResult } from './celery-result.ts';
import { KEEP_MS } from './redis-chord.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Where Celery's workers count the parts of a chord: the parts, a correction of their number, and the number. */
export const celeryChordKeys = (groupId: string): readonly [string, string, string] => {
  const key = `celery-taskset-meta-${groupId}`;
  return [`${key}.j`, `${key}.t`, `${key}.s`];
};

/** Counts a part of a chord that Celery's workers may run other parts of. */
export async function joinCeleryChord(
  connection: RedisConnection,
  chord: string,
  part: ChordPart,
): Promise<ChordAnswer> {
  const { groupId, index, size, taskId, result } = part;
  const keys = [chord, ...celeryChordKeys(groupId)];
  const member = `[1, ${JSON.stringify(taskId)}, "SUCCESS", ${result ?? 'null'}]`;
  const value = result === null ? '-' : part.isSigned === true ? '+' : '~';
  const args = [index, size ?? '', value, member, KEEP_MS, taskId];
  const reply = await connection.script(LUA.ledgerJoinCeleryChord, keys, args);
  const [status, detail, signed] = reply as readonly [
    number,
    (readonly Buffer[] | Buffer)?,
    number?,
  ];
  switch (status) {
    case 2:
      return { status: 'failed' };
    case 3:
      return {
        status: 'complete',
        results: (detail as readonly Buffer[]).map(resultOf),
        isSigned: signed === 1,
      };
    case 4:
      return failedPart(String(detail));
    default:
      return { status: 'open' };
  }
}

/** The value in `[1, id, state, value]`, verbatim. */
const resultOf = (member: Buffer): string => itemsOf(member.toString())[3] ?? 'null';

/** A part that Celery has counted as failed: `[1, id, state, exception]`. */
function failedPart(member: string): ChordAnswer {
  const [, id = '""', state = '""', value = 'null'] = itemsOf(member);
  const taskId = String(JSON.parse(id));
  const meta = readCeleryResult(`{"status": ${state}, "result": ${value}}`);
  const why = meta?.error ?? {
    type: 'TaskRevokedError',
    message: meta?.ending ?? '',
    traceback: '',
  };
  return { status: 'failed', taskId, cause: why };
}

/**
 * Writes the sizes of chords whose headers are about to be sent to where Celery's workers look: otherwise a header that
 * only they run would never complete. Written before the messages, as Celery does. Completing a chord removes it.
 */
export async function announceChords(
  connection: RedisConnection,
  messages: readonly Envelope[],
  note: (groupId: string) => Promise<void>,
): Promise<void> {
  const sizes = new Map<string, number>();
  for (const message of messages) {
    const chord = chordOf(message);
    if (chord !== null) sizes.set(chord.groupId, chord.size);
  }
  for (const [groupId, size] of sizes) {
    const [, , key] = celeryChordKeys(groupId);
    await connection.command('set', key, size, 'PX', KEEP_MS, 'NX');
    await note(groupId);
  }
}
