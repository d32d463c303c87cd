import { hash } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import type { RedactedCopy } from '../outbox/outbox-writer.ts';

/** What is sent for each slot, composed once: a scheduler needs no contract, and so no code of the application. */
export interface Template {
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly version: number;
  /** JSON texts. */
  readonly args: string;
  readonly kwargs: string;
  /** The JSON text of `EnvelopeOptions`, without times and without a signature. */
  readonly settings: string;
  readonly orderingKey: string | null;
  readonly parksKey: boolean;
  readonly redacted: RedactedCopy | null;
  /** From the moment of the send. */
  readonly countdownMs: number | null;
  readonly expiresMs: number | null;
  readonly deadlineMs: number | null;
}

export type CatchUp = 'skip' | 'one' | 'all';
export type Overlap = 'allow' | 'skip' | 'wait';

/** A schedule, checked. Stored as JSON. */
export interface Definition {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly everyMs?: number;
  readonly startMs?: number;
  readonly endMs?: number;
  readonly jitterMs: number;
  readonly graceMs: number;
  readonly catchUp: CatchUp;
  readonly maxCatchUp: number;
  readonly overlap: Overlap;
  readonly task: Template;
}

const MAX_DEFINITION_BYTES = 65_536;

/** ASCII, whatever the encoding of a database is. */
export function writeDefinition(name: string, definition: Definition): string {
  const text = JSON.stringify(definition).replaceAll(
    /[\u007f-\uffff]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (text.length <= MAX_DEFINITION_BYTES) return text;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `schedule ${name} has ${text.length} bytes; ${MAX_DEFINITION_BYTES} are allowed`,
    hint: 'Store the data elsewhere and let the task read it.',
    fields: { bytes: text.length, maxBytes: MAX_DEFINITION_BYTES },
  });
}

export const digestOfDefinition = (text: string): string => hash('sha256', text);

/** Whether two definitions have the same slots. */
export function hasSameSlots(a: Definition, b: Definition): boolean {
  const timing = ({ cron, timeZone, everyMs, startMs, endMs }: Definition): string =>
    JSON.stringify([cron, timeZone, everyMs, startMs, endMs]);
  return timing(a) === timing(b);
}

type Kind = 'string' | 'number' | 'boolean';
type Shape = Readonly<Record<string, readonly [Kind, 'needed' | 'null' | 'absent']>>;

const TEMPLATE_SHAPE: Shape = {
  name: ['string', 'needed'],
  queue: ['string', 'needed'],
  priority: ['number', 'needed'],
  version: ['number', 'needed'],
  args: ['string', 'needed'],
  kwargs: ['string', 'needed'],
  settings: ['string', 'needed'],
  orderingKey: ['string', 'null'],
  parksKey: ['boolean', 'needed'],
  countdownMs: ['number', 'null'],
  expiresMs: ['number', 'null'],
  deadlineMs: ['number', 'null'],
};

const SHAPE: Shape = {
  cron: ['string', 'absent'],
  timeZone: ['string', 'absent'],
  everyMs: ['number', 'absent'],
  startMs: ['number', 'absent'],
  endMs: ['number', 'absent'],
  jitterMs: ['number', 'needed'],
  graceMs: ['number', 'needed'],
  catchUp: ['string', 'needed'],
  maxCatchUp: ['number', 'needed'],
  overlap: ['string', 'needed'],
};

/** Reads what a database has: another version, or a person, may have written it. */
export function readDefinition(name: string, text: string): Definition {
  const value = parsed(text);
  if (isLike(value, SHAPE)) {
    const { task, everyMs = 1_000, maxCatchUp } = value as unknown as Definition;
    const isBounded = everyMs >= 1_000 && maxCatchUp <= 1_000;
    if (isBounded && isLike(task, TEMPLATE_SHAPE)) return value as unknown as Definition;
  }
  throw outlastError('ERR_SCHEDULE_INVALID', {
    message: `schedule ${name}: what the database has of it cannot be read`,
    hint: 'Put it again, or upgrade this process to the version that wrote it.',
    fields: { schedule: name },
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isLike(value: unknown, shape: Shape): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const record = value as Readonly<Record<string, unknown>>;
  return Object.entries(shape).every(([key, [kind, when]]) => {
    const member = record[key];
    if (member === undefined) return when === 'absent';
    return member === null ? when === 'null' : typeof member === kind;
  });
}
