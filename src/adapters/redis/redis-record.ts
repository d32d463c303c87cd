import type { HistoryEntry } from '../../ledger/dead-letter.ts';
import type { ErrorRecord, TaskState } from '../../ledger/ledger.ts';
import { readErrorRecord } from '../../ledger/read-entry.ts';
import type { Ending } from '../../result/result-store.ts';
import { MeasuredEnvelope } from '../../task/digest.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes } from '../../task/json.ts';
import { MARKS, hasMark } from '../../task/marks.ts';
import {
  HISTORY_STEPS,
  INLINE_BYTES,
  POSITIONS,
  RECORD_SHAPE as SHAPE,
  RECORD_STATES,
} from './record-layout.ts';
import type { Rank } from './redis-keys.ts';
import { type Packable, type Packer, type Unpacked, unpack } from './redis-pack.ts';

/** A stored record, with its times. `lua/includes/ledger-record.lua` writes it. */
export interface StoredRecord {
  /** False: a foreign client has written to it, and this is the readable part. */
  readonly isWhole: boolean;
  readonly state: TaskState;
  readonly epoch: number;
  readonly run: string;
  /** The incarnation that runs it. */
  readonly owner: string;
  readonly name: string;
  readonly queue: string;
  /** 9 is the most urgent, whichever the broker's is. */
  readonly priority: number;
  readonly version: number;
  readonly digest: string;
  readonly etaMs: number | null;
  readonly expiresMs: number | null;
  readonly options: Uint8Array;
  /** Null: it has a separate key. */
  readonly body: Uint8Array | null;
  readonly failures: number;
  readonly crashes: number;
  readonly crashBudget: number;
  readonly dueMs: number;
  readonly createdMs: number;
  readonly checkpointSeq: number;
  /** Counts deaths, so that one revival undoes one death. */
  readonly deaths: number;
  readonly ending: Ending | null;
  readonly endedMs: number;
  readonly why: string;
  readonly error: ErrorRecord | null;
  readonly result: Uint8Array | null;
  readonly history: readonly HistoryEntry[];
}

/** By their code in a record. */
const reversed = <Name extends string>(
  letters: Readonly<Record<Name, string>>,
): Readonly<Record<string, Name>> =>
  Object.fromEntries(
    Object.entries<string>(letters).map(([name, letter]) => [letter, name as Name] as const),
  );

const STATES = reversed(RECORD_STATES);

/** Reads a record. Its bytes are copies: those of a reply are views of the whole reply. */
export function readRecord(raw: Buffer): StoredRecord {
  const { members, isWhole } = readMembers(raw);
  const text = (position: number): string => String(members[position - 1]);
  const number = (position: number): number => members[position - 1] as number;
  const bytes = (position: number): Uint8Array | null => {
    const value = members[position - 1];
    return value instanceof Buffer ? new Uint8Array(value) : null;
  };
  const time = (position: number): number | null => {
    const value = members[position - 1];
    return typeof value === 'number' ? value : null;
  };
  return {
    isWhole,
    state: STATES[text(POSITIONS.state)] ?? 'dead',
    epoch: number(POSITIONS.epoch),
    run: text(POSITIONS.run),
    owner: text(POSITIONS.owner),
    name: text(POSITIONS.name),
    queue: text(POSITIONS.queue),
    priority: number(POSITIONS.priority),
    version: number(POSITIONS.version),
    digest: readDigest(members[POSITIONS.digest - 1] as Buffer),
    etaMs: time(POSITIONS.eta),
    expiresMs: time(POSITIONS.expires),
    options: bytes(POSITIONS.options) ?? NO_BYTES,
    body: bytes(POSITIONS.body),
    failures: number(POSITIONS.failures),
    crashes: number(POSITIONS.crashes),
    crashBudget: number(POSITIONS.budget),
    dueMs: number(POSITIONS.due),
    createdMs: number(POSITIONS.created),
    // Read on demand: rarely needed, and the slowest to read.
    get history() {
      return readHistory(text(POSITIONS.history));
    },
    checkpointSeq: number(POSITIONS.checkpointSeq),
    deaths: number(POSITIONS.deaths),
    ending: (text(POSITIONS.ending) || null) as Ending | null,
    endedMs: number(POSITIONS.ended),
    why: text(POSITIONS.why),
    error: text(POSITIONS.error) === '' ? null : readErrorRecord(text(POSITIONS.error)),
    result: bytes(POSITIONS.result),
  };
}

const NO_BYTES = new Uint8Array();

/** A message in the scripts' format: its id, then what a record keeps of it. */
export function messageParts(envelope: Envelope, rank: Rank): Packable[] {
  const { id, name, queue, version, etaMs, expiresMs, options, body } = envelope;
  const times = [etaMs ?? false, expiresMs ?? false];
  const priority = rank(envelope.priority);
  return [id, name, queue, priority, version, writeDigest(envelope), ...times, options, body];
}

export const isInline = ({ body }: Envelope): boolean => body.length <= INLINE_BYTES;

export const keepsNoResult = ({ options }: Envelope): boolean => hasMark(options, MARKS.unkept);

export function envelopeOfParts(parts: Unpacked, rank: Rank): Envelope {
  const [id, name, queue, priority, version, digest, etaMs, expiresMs, options, body] =
    parts as readonly Unpacked[];
  return {
    id: String(id),
    name: String(name),
    queue: String(queue),
    priority: rank(priority as number),
    version: version as number,
    body: new Uint8Array(body as Buffer),
    options: new Uint8Array(options as Buffer),
    digest: readDigest(digest as Buffer),
    etaMs: typeof etaMs === 'number' ? etaMs : null,
    expiresMs: typeof expiresMs === 'number' ? expiresMs : null,
  };
}

/** The envelope of a record; `body` is from its separate key, if it has one. */
export function envelopeOf(
  id: string,
  record: StoredRecord,
  body: Uint8Array | null,
  rank: Rank,
): Envelope {
  const { name, queue, priority, version, digest, etaMs, expiresMs, options } = record;
  return {
    id,
    name,
    queue,
    priority: rank(priority),
    version,
    body: record.body ?? body ?? NO_BYTES,
    options,
    digest,
    etaMs,
    expiresMs,
  };
}

const HEX = /^[0-9a-f]{64}$/;
const PACKED_BYTES = 33;

const isHex = (envelope: Envelope): boolean =>
  MeasuredEnvelope.is(envelope) || HEX.test(envelope.digest);

/** A NUL and the bytes: half as long as the text, in every record and tombstone. Other texts are kept as they are. */
function writeDigest(envelope: Envelope): Packable {
  const { digest } = envelope;
  return isHex(envelope) ? Buffer.from(`00${digest}`, 'hex') : digest;
}

/** The same for a packer. */
export function putDigest(packer: Packer, envelope: Envelope): void {
  if (isHex(envelope)) packer.putHex(0, envelope.digest);
  else packer.put(envelope.digest);
}

function readDigest(bytes: Buffer): string {
  const isPacked = bytes.length === PACKED_BYTES && bytes[0] === 0;
  return isPacked ? bytes.toString('hex', 1) : bytes.toString();
}

export function encodeError(error: ErrorRecord): Uint8Array {
  return toBytes(JSON.stringify(error));
}

/** The epoch for a value that is not an instant. */
function iso(ms: number): string {
  return new Date(Math.abs(ms) <= 8.64e15 ? ms : 0).toISOString();
}

const STEPS: Readonly<Record<string, string>> = reversed(HISTORY_STEPS);
/** The steps that a worker takes, or that end its run. */
const OF_RUN: ReadonlySet<string> = new Set(
  (
    [
      'begun',
      'done',
      'discarded',
      'failed',
      'crashed',
      'dead',
      'released',
      'reaped',
      'buried',
      'cancelled',
    ] as const
  ).map(step => HISTORY_STEPS[step]),
);

/** A line has a letter and the time, the epoch, and then the worker that began or the error of the failure. */
function readHistory(text: string): readonly HistoryEntry[] {
  const workers = new Map<number, string>();
  const lines = text.split('\n').filter(line => line !== '');
  return lines.map(line => {
    const [first = '', second = ''] = line.split(' ', 2);
    const rest = line.slice(first.length + second.length + 2);
    const [letter, epoch] = [first.charAt(0), Number(second)];
    if (letter === HISTORY_STEPS.begun) workers.set(epoch, rest);
    const worker = OF_RUN.has(letter) ? workers.get(epoch) : undefined;
    const error = letter === HISTORY_STEPS.begun || rest === '' ? undefined : readErrorRecord(rest);
    return {
      at: iso(Number(first.slice(1))),
      step: STEPS[letter] ?? letter,
      epoch,
      ...(worker === undefined ? {} : { worker }),
      ...(error === undefined ? {} : { error }),
    };
  });
}

/** The last instant that a Date can hold. */
const LARGEST = 8.64e15;

/** The members of a record. Foreign values are replaced by empty ones, and `isWhole` is then false. */
export interface RecordMembers {
  readonly members: readonly Unpacked[];
  readonly isWhole: boolean;
}

function readMembers(raw: Buffer): RecordMembers {
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
