import { chordOf } from '../../task/chord-link.ts';
import { itemsOf } from '../../task/json-slices.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { encodeTold } from '../../wire/reply.ts';
import { celeryResultKey } from './celery-result.ts';
import { KEEP_MS } from './redis-chord.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Where Celery's workers count the parts of a chord: the parts, a correction of how many there are, and how many. */
export const celeryChordKeys = (groupId: string): readonly [string, string, string] => {
  const key = `celery-taskset-meta-${groupId}`;
  return [`${key}.j`, `${key}.t`, `${key}.s`];
};

/** Counts a part of a chord of which Celery's workers may run others. */
export async function joinCeleryChord(
  connection: RedisConnection,
  chord: string,
  part: ChordPart,
  keepMs: number,
): Promise<ChordAnswer> {
  const { groupId, index, size, taskId, result, bodyId } = part;
  const keys = [chord, ...celeryChordKeys(groupId), celeryResultKey(bodyId ?? '')];
  const member = `[1, ${JSON.stringify(taskId)}, "SUCCESS", ${result ?? 'null'}]`;
  const failure = bodyId === undefined ? '' : chordError(bodyId, taskId);
  const value = result === null ? '-' : '+';
  const args = [index, size ?? '', value, member, failure, keepMs, KEEP_MS];
  const reply = await connection.script(LUA.ledgerJoinCeleryChord, keys, args);
  const [status, told] = reply as readonly [number, (readonly Buffer[] | Buffer)?];
  switch (status) {
    case 2:
      return { status: 'failed' };
    case 3:
      return { status: 'complete', results: (told as readonly Buffer[]).map(resultOf) };
    case 4:
      return { status: 'failed', taskId: String(told) };
    default:
      return { status: 'open' };
  }
}

/** The value in `[1, id, state, value]`, as it was written. */
const resultOf = (member: Buffer): string => itemsOf(member.toString())[3] ?? 'null';

/** What Celery tells those who wait for the body of a chord. */
function chordError(bodyId: string, taskId: string): string {
  const message = `Dependency ${taskId} did not end with a result`;
  const error = { type: 'ChordError', message, traceback: '' };
  return encodeTold(bodyId, { status: 'FAILURE', error }, 'celery.exceptions');
}

/**
 * Says how large the chords are whose headers are about to be sent, where Celery's workers look: a header that only they
 * run would never be complete otherwise. Before the messages, as Celery does it. A chord that is completed takes it away.
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
