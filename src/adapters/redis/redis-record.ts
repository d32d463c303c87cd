import type { HistoryEntry } from '../../admin/read-model.ts';
import type { ErrorRecord, TaskState } from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import { MeasuredEnvelope } from '../../task/digest.ts';
import type { Envelope } from '../../task/envelope.ts';
import { decodeJson, toBytes } from '../../task/json.ts';
import { unpack, type Packable, type Packer, type Unpacked } from './redis-pack.ts';

/** A record as it is stored, with its times. `lua/includes/ledger-record.lua` writes it. */
export interface StoredRecord {
  readonly state: TaskState;
  readonly epoch: number;
  readonly run: string;
  /** The incarnation that runs it. */
  readonly owner: string;
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly version: number;
  readonly digest: string;
  readonly etaMs: number | null;
  readonly expiresMs: number | null;
  readonly options: Uint8Array;
  /** Null: it has a key of its own. */
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

const STATES: Readonly<Record<string, TaskState>> = {
  w: 'waiting',
  r: 'running',
  d: 'done',
  x: 'dead',
  c: 'cancelled',
};

/** Reads a record. Its bytes are copies: those of a reply are part of whatever else came with it. */
export function readRecord(raw: Buffer): StoredRecord {
  const places = unpack(raw) as readonly Unpacked[];
  const text = (place: number): string => String(places[place - 1]);
  const number = (place: number): number => places[place - 1] as number;
  const bytes = (place: number): Uint8Array | null => {
    const value = places[place - 1];
    return value instanceof Buffer ? new Uint8Array(value) : null;
  };
  const time = (place: number): number | null => {
    const value = places[place - 1];
    return typeof value === 'number' ? value : null;
  };
  return {
    state: STATES[text(1)] ?? 'dead',
    epoch: number(2),
    run: text(3),
    owner: text(4),
    name: text(6),
    queue: text(7),
    priority: number(8),
    version: number(9),
    digest: readDigest(places[9] as Buffer),
    etaMs: time(11),
    expiresMs: time(12),
    options: bytes(13) ?? NO_BYTES,
    body: bytes(14),
    failures: number(15),
    crashes: number(16),
    crashBudget: number(17),
    dueMs: number(18),
    createdMs: number(20),
    // Few ask for it, and it is the longest to read.
    get history() {
      return readHistory(text(21));
    },
    checkpointSeq: number(23),
    deaths: number(24),
    ending: (text(25) || null) as Ending | null,
    endedMs: number(26),
    why: text(27),
    error: text(28) === '' ? null : decodeError(text(28)),
    result: bytes(29),
  };
}

const NO_BYTES = new Uint8Array();

/** A message as scripts take it: its id, then what a record keeps of it. */
export function messageParts(envelope: Envelope): Packable[] {
  const { id, name, queue, priority, version, etaMs, expiresMs, options, body } = envelope;
  const times = [etaMs ?? false, expiresMs ?? false];
  return [id, name, queue, priority, version, writeDigest(envelope), ...times, options, body];
}

/** Longer bodies have a key of their own: a step that only moves a task need not carry them. As the scripts know it. */
const INLINE_BYTES = 1_024;

export const isInline = ({ body }: Envelope): boolean => body.length <= INLINE_BYTES;

/** As `celery-result.lua` looks for it. */
export const keepsNoResult = ({ options }: Envelope): boolean =>
  options.length > 2 &&
  Buffer.from(options.buffer, options.byteOffset, options.length).includes('"keepResult":false');

export function envelopeOfParts(parts: Unpacked): Envelope {
  const [id, name, queue, priority, version, digest, etaMs, expiresMs, options, body] =
    parts as readonly Unpacked[];
  return {
    id: String(id),
    name: String(name),
    queue: String(queue),
    priority: priority as number,
    version: version as number,
    body: new Uint8Array(body as Buffer),
    options: new Uint8Array(options as Buffer),
    digest: readDigest(digest as Buffer),
    etaMs: typeof etaMs === 'number' ? etaMs : null,
    expiresMs: typeof expiresMs === 'number' ? expiresMs : null,
  };
}

/** The envelope of a record; `body` is that of its own key, where it has one. */
export function envelopeOf(id: string, record: StoredRecord, body: Uint8Array | null): Envelope {
  const { name, queue, priority, version, digest, etaMs, expiresMs, options } = record;
  return {
    id,
    name,
    queue,
    priority,
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

/** A NUL and the bytes: half as long as the text, in every record and every tombstone. Other texts stay what they are. */
function writeDigest(envelope: Envelope): Packable {
  const { digest } = envelope;
  return isHex(envelope) ? Buffer.from(`00${digest}`, 'hex') : digest;
}

/** The same, where it is packed. */
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

function decodeError(text: string): ErrorRecord {
  return decodeJson(text) as ErrorRecord;
}

const STEPS: Readonly<Record<string, string>> = {
  a: 'arrived',
  b: 'begun',
  d: 'done',
  i: 'discarded',
  f: 'failed',
  h: 'crashed',
  x: 'dead',
  r: 'released',
  p: 'reaped',
  u: 'buried',
  v: 'revived',
  c: 'cancelled',
  e: 'expired',
  g: 'purged',
};
/** The steps that a worker takes, or that are taken from it. */
const OF_RUN = new Set('bdifhxrpuc');

/** A line is: a letter and the time, the epoch, and then the worker that began or the error of what failed. */
function readHistory(text: string): readonly HistoryEntry[] {
  const workers = new Map<number, string>();
  const lines = text.split('\n').filter(line => line !== '');
  return lines.map(line => {
    const [first = '', second = ''] = line.split(' ', 2);
    const rest = line.slice(first.length + second.length + 2);
    const [letter, epoch] = [first.charAt(0), Number(second)];
    if (letter === 'b') workers.set(epoch, rest);
    const worker = OF_RUN.has(letter) ? workers.get(epoch) : undefined;
    const error = letter === 'b' || rest === '' ? undefined : decodeError(rest);
    return {
      at: new Date(Number(first.slice(1))).toISOString(),
      step: STEPS[letter] ?? letter,
      epoch,
      ...(worker === undefined ? {} : { worker }),
      ...(error === undefined ? {} : { error }),
    };
  });
}
