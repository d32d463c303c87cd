import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS } from '../../ledger/open-chord.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** How long keys live after their last use: a day more than a chord may wait, so that forgotten ones can be recognized. */
export const KEEP_MS: number = KEEP_OPEN_CHORD_MS + 86_400_000;

/** Counts a part of the chord stored under this key. */
export async function joinChord(
  connection: RedisConnection,
  key: string,
  { index, size, result, isSigned }: ChordPart,
): Promise<ChordAnswer> {
  const value = result === null ? '-' : `${isSigned === true ? '+' : '~'}${result}`;
  const args = [index, size ?? '', value, KEEP_MS];
  const reply = await connection.script(LUA.ledgerJoinChord, [key], args);
  const [status, results = [], signed] = reply as readonly [number, (readonly Buffer[])?, number?];
  if (status === 3)
    return { status: 'complete', results: results.map(String), isSigned: signed === 1 };
  return { status: status === 2 ? 'failed' : 'open' };
}
