import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Counts a part of the chord that is kept under this key. */
export async function joinChord(
  connection: RedisConnection,
  key: string,
  { index, size, result }: ChordPart,
): Promise<ChordAnswer> {
  const value = result === null ? '-' : `+${result}`;
  const reply = await connection.script(LUA.ledgerJoinChord, [key], [index, size ?? '', value]);
  const [status, results = []] = reply as readonly [number, (readonly Buffer[])?];
  if (status === 3) return { status: 'complete', results: results.map(String) };
  return { status: status === 2 ? 'failed' : 'open' };
}
