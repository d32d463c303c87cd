import { createHmac, timingSafeEqual } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import { defaultDuration } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { durationMs } from './duration.ts';
import { MARKS, hasMark } from './marks.ts';
import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes } from './json.ts';
import { readOptions } from './read-options.ts';
import { toUSVString } from 'node:util';
import { listedOf } from './travelling-options.ts';

/** A secret that producers and workers share, with the id by which messages refer to it. */
export interface SigningKey {
  readonly id: string;
  readonly secret: Uint8Array;
}

export interface KeyringSettings {
  /** Queues whose tasks need no signature, with the tasks that may come there: names, or prefixes before a `*`. */
  readonly unsignedQueues?: Readonly<Record<string, readonly string[]>>;
  /** How long a signature counts for a message on arrival. */
  readonly maxAgeMs?: number;
  /** What the signatures are for: a signature for another audience is not accepted. */
  readonly audience?: string;
  /** There are keys, but this process did not get them: it verifies nothing, and must not send unsigned tasks. */
  readonly isWithheld?: boolean;
}

/**
 * Whether a task may run, and how its follow-ups are sent. `signed`: the holder of a key has sent it, and follow-ups are
 * signed. `unsigned`: its queue requires no signature; follow-ups stay unsigned, because its sender chose them.
 */
export type Standing =
  | { readonly kind: 'signed'; readonly terms: SignedTerms }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'refused'; readonly why: string };

const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;
const UNSIGNED: Standing = { kind: 'unsigned' };

export const isKeyId = (text: string): boolean => KEY_ID.test(text);

/** Tombstones of cancelled, expired and purged tasks stay for a day: an accepted message must not be older. */
const DEFAULT_MAX_AGE_MS = durationMs(
  defaultDuration(TOP_LEVEL_TABLE, 'signatureMaxAge'),
  'signatureMaxAge',
);
/** Clocks of senders and workers may differ by this much. */
const CLOCK_TOLERANCE_MS = 300_000;

/**
 * The keys of this process: the first signs, all of them verify, so that a new one can be known everywhere before
 * any process signs with it. Secrets are private fields: no log, no error and no `console.log` of a config shows them.
 */
export class Keyring {
  readonly #keys: readonly SigningKey[];
  readonly #unsigned: ReadonlyMap<string, readonly string[]>;
  readonly #maxAgeMs: number;
  readonly #audience: string;
  readonly #isWithheld: boolean;
  /** A task is checked on arrival, before its key is claimed, before it runs and when it has ended. */
  readonly #judged = new WeakMap<object, Standing>();

  constructor(keys: readonly SigningKey[], settings: KeyringSettings = {}) {
    this.#keys = keys;
    this.#unsigned = new Map(Object.entries(settings.unsignedQueues ?? {}));
    this.#maxAgeMs = settings.maxAgeMs ?? DEFAULT_MAX_AGE_MS;
    this.#audience = settings.audience ?? '';
    this.#isWithheld = settings.isWithheld ?? false;
  }

  /** There is a key: tasks are signed, and must be. */
  get isSigning(): boolean {
    return this.#keys.length > 0;
  }

  /** Anybody may have written what a task of this queue says of itself. */
  takesUnsigned(queue: string): boolean {
    return this.isSigning && this.#unsigned.has(queue);
  }

  /** Undefined if there is no key: the task travels unsigned. */
  sign(task: SignedTask, nowMs: number): string | undefined {
    if (this.#isWithheld) throw withheld();
    const [key] = this.#keys;
    if (!key) return undefined;
    const terms = termsOf(task, nowMs);
    const mac = macOf(key, statementOf(task, terms, this.#audience));
    return writeTerms(key.id, terms, mac.toString('hex'));
  }

  /** Proves that the holder of a key has written the text with this digest; undefined if there is no key. */
  seal(digest: string): string | undefined {
    if (this.#isWithheld) throw withheld();
    const [key] = this.#keys;
    return key && `${key.id}.${macOf(key, this.#sealed(digest)).toString('hex')}`;
  }

  /** Why a seal is invalid, or null when it is one of ours, or none is required. */
  refusalOfSeal(digest: string, seal: string | undefined): string | null {
    if (!this.isSigning) return null;
    if (seal === undefined) return 'it is not signed';
    const [id = '', mac = ''] = seal.split('.');
    return this.#refusalOfMac(id, mac, this.#sealed(digest));
  }

  /** Its digest must have been compared with its bytes before. */
  standingOf(envelope: Envelope): Standing {
    if (!this.isSigning) return UNSIGNED;
    const known = this.#judged.get(envelope);
    if (known) return known;
    const standing = this.#judge(envelope);
    this.#judged.set(envelope, standing);
    return standing;
  }

  isSigned(envelope: Envelope): boolean {
    return this.standingOf(envelope).kind === 'signed';
  }

  /** Why a task must not be run, or null when it may. The ledger has it, so its age does not count any more. */
  refusalOf(envelope: Envelope): string | null {
    const standing = this.standingOf(envelope);
    return standing.kind === 'refused' ? standing.why : null;
  }

  /** The same for a message from a broker, where any client may have kept it or changed its times. */
  refusalOnArrival(envelope: Envelope, nowMs: number): string | null {
    const standing = this.standingOf(envelope);
    if (standing.kind === 'refused') return standing.why;
    if (standing.kind === 'unsigned') return null;
    const { terms } = standing;
    if (!sameTimes(envelope, terms)) return 'its eta or expires is not the one that was signed';
    const ageMs = nowMs - terms.issuedMs;
    if (ageMs <= this.#maxAgeMs + CLOCK_TOLERANCE_MS) return null;
    const hours = (ms: number): string => `${Math.round(ms / 360_000) / 10} h`;
    return `it was signed ${hours(ageMs)} ago and signatures count for ${hours(this.#maxAgeMs)}: it may be a copy of a task that ran and is forgotten`;
  }

  /** How long the end of a task must be remembered, so that no copy of it is accepted afterwards. */
  dedupMsOf(envelope: Envelope, dedupMs: number, nowMs: number): number {
    const standing = this.standingOf(envelope);
    if (standing.kind !== 'signed') return dedupMs;
    const aheadMs = Math.max(0, standing.terms.issuedMs - nowMs);
    return Math.max(dedupMs, this.#maxAgeMs + 3 * CLOCK_TOLERANCE_MS + aheadMs);
  }

  /**
   * The same task with a new signature, if its own will soon expire: it has waited in an outbox or for a broker. A task that
   * is not signed with a key of ours stays as it is.
   */
  renewed(envelope: Envelope, nowMs: number): Envelope {
    if (!this.isSigning || !hasSignature(envelope)) return envelope;
    const options = readOptions(envelope);
    const terms = readTerms(options.signature ?? '');
    if (terms === null || nowMs - terms.issuedMs < this.#maxAgeMs / 2) return envelope;
    if (!this.isSigned(envelope)) return envelope;
    const signature = this.sign({ ...envelope, ...scopeOf(terms), options }, nowMs);
    return { ...envelope, options: toBytes(JSON.stringify({ ...options, signature })) };
  }

  #judge(envelope: Envelope): Standing {
    const options = readOptions(envelope);
    const checked = this.#check(envelope, options);
    if (typeof checked !== 'string') return { kind: 'signed', terms: checked };
    const { queue, name } = envelope;
    const allowed = this.#unsigned.get(queue);
    if (allowed === undefined) return { kind: 'refused', why: checked };
    if (allowed.some(pattern => isNamedBy(pattern, name))) return UNSIGNED;
    return {
      kind: 'refused',
      why: `it is not signed, and unsignedQueues does not name ${name} for ${queue}`,
    };
  }

  /** The signed terms, or why the signature is invalid. */
  #check(envelope: Envelope, options: EnvelopeOptions): SignedTerms | string {
    const { signature } = options;
    if (signature === undefined)
      return `it is not signed, and ${envelope.queue} is not in unsignedQueues`;
    const terms = readTerms(signature);
    if (terms === null) return 'its signature is not of a form that is known here';
    const statement = statementOf({ ...envelope, options }, terms, this.#audience);
    return this.#refusalOfMac(terms.keyId, terms.mac, statement) ?? terms;
  }

  #refusalOfMac(id: string, mac: string, statement: string): string | null {
    const key = this.#keys.find(known => known.id === id);
    if (!key) return `it is signed with the key ${isKeyId(id) ? id : '?'}, which is not known here`;
    const given = Buffer.from(mac, 'hex');
    const right = macOf(key, statement);
    const isRight = given.length === right.length && timingSafeEqual(given, right);
    return isRight ? null : `its signature is not one of the key ${id}`;
  }

  #sealed(digest: string): string {
    return JSON.stringify(['outlast seal 1', this.#audience, digest]);
  }
}

/** Nothing is signed, and nothing has to be. */
export const NO_KEYS: Keyring = new Keyring([]);

const macOf = (key: SigningKey, statement: string): Buffer =>
  createHmac('sha256', key.secret).update(statement).digest();

const scopeOf = ({ isForAnyQueue }: SignedTerms): Pick<SignedTask, 'isForAnyQueue'> =>
  isForAnyQueue ? { isForAnyQueue } : {};

/** Cheap, because every published message is checked. */
export function hasSignature({ options }: Envelope): boolean {
  return hasMark(options, MARKS.signature);
}

function isNamedBy(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function withheld(): Error {
  return outlastError('ERR_SIGNING_KEYS_WITHHELD', {
    message: 'a handler in a thread or process of its own cannot sign what it sends',
    hint: "Set worker.isolateKeys to 'on', or send from a handler of mode inline.",
    fields: {},
  });
}

/**
 * What a signature covers: everything by which a handler, a follow-up or an answer could be steered. It is made from the
 * envelope and not from a message, so it is the same in an outbox, at a broker and in a ledger. It leaves out what changes
 * on the way (priority, headers that brokers and tracers add, delivery counts) or is only shown (redacted copies).
 */

/** The signed part of a task. */
export interface SignedTask extends Pick<
  Envelope,
  'id' | 'queue' | 'digest' | 'etaMs' | 'expiresMs'
> {
  readonly options: EnvelopeOptions;
  /** It goes to an exchange, and its sender does not know which queues get it. */
  readonly isForAnyQueue?: boolean;
}

/** Terms kept in the signature itself, because no other part of a task keeps them from the send to its end. */
export interface SignedTerms {
  readonly keyId: string;
  readonly mac: string;
  readonly issuedMs: number;
  readonly etaMs: number | null;
  readonly expiresMs: number | null;
  readonly isForAnyQueue: boolean;
}

const VERSION = '1';

type Terms = Omit<SignedTerms, 'keyId' | 'mac'>;

export function termsOf(task: SignedTask, nowMs: number): Terms {
  const { options, isForAnyQueue } = task;
  const isRouted = options.exchange !== undefined || options.routingKey !== undefined;
  return {
    issuedMs: Math.floor(nowMs),
    ...timesOf(task),
    isForAnyQueue: isForAnyQueue ?? isRouted,
  };
}

/** Rounded in the direction in which a reader of the message drops fractions of a millisecond. */
function timesOf({ etaMs, expiresMs }: Pick<Envelope, 'etaMs' | 'expiresMs'>): {
  readonly etaMs: number | null;
  readonly expiresMs: number | null;
} {
  return {
    etaMs: etaMs === null ? null : Math.ceil(etaMs),
    expiresMs: expiresMs === null ? null : Math.floor(expiresMs),
  };
}

/** A ledger does not keep these times until the end of a task; a message has them when it arrives. */
function sameTimes(envelope: Envelope, terms: SignedTerms): boolean {
  const { etaMs, expiresMs } = timesOf(envelope);
  return etaMs === terms.etaMs && expiresMs === terms.expiresMs;
}

/** The text that is signed. */
export function statementOf(task: SignedTask, terms: Terms, audience: string): string {
  const { id, queue, digest, options } = task;
  const { issuedMs, etaMs, expiresMs, isForAnyQueue } = terms;
  return JSON.stringify([
    'outlast task 1',
    audience,
    [issuedMs, etaMs, expiresMs],
    isForAnyQueue ? null : queue,
    // Name, id, version and body, with all follow-ups.
    digest,
    [options.rootId || id, options.parentId || null],
    [options.groupId || null, options.groupIndex ?? null],
    [options.replyTo || null, options.correlationId || id, options.keepResult === false],
    [options.idempotencyKey || null, options.tenant || null, options.admission ?? null],
    [limitOf(options.timeoutMs), limitOf(options.softTimeoutMs), roundOf(options.deadlineMs)],
    toUSVString(options.shadow || ''),
    headersOf(options.headers ?? {}),
    ...listedOf(options),
  ]);
}

/** An AMQP or JSON table may come back in another order, and lone surrogates as replacement characters. */
function headersOf(headers: Readonly<Record<string, string>>): readonly (readonly string[])[] {
  const entries = Object.entries(headers);
  return entries
    .map(([name, text]) => [toUSVString(name), toUSVString(text)] as const)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Sent in seconds. */
const limitOf = (ms: number | undefined): number | null =>
  ms !== undefined && ms > 0 ? Math.round(ms * 1e3) / 1e3 : null;

const roundOf = (ms: number | undefined): number | null =>
  ms === undefined ? null : Math.round(ms);

/** `1.<key>.<issued>.<q: for its queue, a: for any>.<eta>.<expires>.<mac>`; times in base 36, `_` is none. */
function writeTerms(keyId: string, terms: Terms, mac: string): string {
  const time = (ms: number | null): string => (ms === null ? '_' : ms.toString(36));
  const { issuedMs, etaMs, expiresMs, isForAnyQueue } = terms;
  const scope = isForAnyQueue ? 'a' : 'q';
  return [VERSION, keyId, time(issuedMs), scope, time(etaMs), time(expiresMs), mac].join('.');
}

const PARTS = 7;
const TIME = /^-?[0-9a-z]{1,10}$/;

/** Null: it is no signature of this version. */
function readTerms(signature: string): SignedTerms | null {
  const parts = signature.split('.', PARTS + 1);
  const [version, keyId = '', issued = '', scope, eta = '', expires = '', mac = ''] = parts;
  const isKnown = version === VERSION && parts.length === PARTS && (scope === 'q' || scope === 'a');
  const isTime = (text: string): boolean => text === '_' || TIME.test(text);
  if (!isKnown || !TIME.test(issued) || !isTime(eta) || !isTime(expires)) return null;
  const time = (text: string): number | null => (text === '_' ? null : Number.parseInt(text, 36));
  return {
    keyId,
    mac,
    issuedMs: Number.parseInt(issued, 36),
    etaMs: time(eta),
    expiresMs: time(expires),
    isForAnyQueue: scope === 'a',
  };
}
