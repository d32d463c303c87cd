import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS } from '../../ledger/open-chord.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** How long keys live after they were touched: a day more than a chord may wait, so that it can be told which was forgotten. */
export const KEEP_MS: number = KEEP_OPEN_CHORD_MS + 86_400_000;

/** Counts a part of the chord that is kept under this key. */
export async function joinChord(
  connection: RedisConnection,
  key: string,
  { index, size, result }: ChordPart,
): Promise<ChordAnswer> {
  const value = result === null ? '-' : `+${result}`;
  const args = [index, size ?? '', value, KEEP_MS];
  const reply = await connection.script(LUA.ledgerJoinChord, [key], args);
  const [status, results = []] = reply as readonly [number, (readonly Buffer[])?];
  if (status === 3) return { status: 'complete', results: results.map(String) };
  return { status: status === 2 ? 'failed' : 'open' };
}
