import { POSITIONS, RECORD_SHAPE as SHAPE, RECORD_STATES } from './record-layout.ts';
import { unpack, type Unpacked } from './redis-pack.ts';

/** The last instant that a Date can hold. */
const LARGEST = 8.64e15;

/** The members of a record. Foreign values are replaced by empty ones, and `isWhole` is then false. */
export interface RecordMembers {
  readonly members: readonly Unpacked[];
  readonly isWhole: boolean;
}

export function readMembers(raw: Buffer): RecordMembers {
  const found = unpacked(raw);
  if (isWholeRecord(found)) return { members: found, isWhole: true };
  const members = Array.from(SHAPE, (kind, at) => {
    const value = found[at];
    return fits(kind, value) ? (value as Unpacked) : nothingOf(kind);
  });
  // No worker runs it, and no reader may take it for a finished task.
  members[POSITIONS.state - 1] = Buffer.from(RECORD_STATES.dead);
  return { members, isWhole: false };
}

function isWholeRecord(members: readonly unknown[]): members is readonly Unpacked[] {
  if (members.length < SHAPE.length) return false;
  for (let at = 0; at < SHAPE.length; at++) if (!fits(SHAPE.charAt(at), members[at])) return false;
  return true;
}

function fits(kind: string, value: unknown): boolean {
  switch (kind) {
    case 'n':
      return typeof value === 'number' && value > -LARGEST && value < LARGEST;
    case 'N':
      return value === false || fits('n', value);
    case 't':
      return value instanceof Buffer;
    case 'R':
      return value === null || fits('T', value);
    default:
      return value === false || value instanceof Buffer;
  }
}

function nothingOf(kind: string): Unpacked {
  return kind === 't' ? Buffer.alloc(0) : kind === 'n' ? 0 : false;
}

function unpacked(raw: Buffer): readonly unknown[] {
  try {
    const value: unknown = unpack(raw);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
