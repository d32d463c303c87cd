import { toUSVString } from 'node:util';
import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { listedOf } from './travelling-options.ts';

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
export function sameTimes(envelope: Envelope, terms: SignedTerms): boolean {
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
export function writeTerms(keyId: string, terms: Terms, mac: string): string {
  const time = (ms: number | null): string => (ms === null ? '_' : ms.toString(36));
  const { issuedMs, etaMs, expiresMs, isForAnyQueue } = terms;
  const scope = isForAnyQueue ? 'a' : 'q';
  return [VERSION, keyId, time(issuedMs), scope, time(etaMs), time(expiresMs), mac].join('.');
}

const PARTS = 7;
const TIME = /^-?[0-9a-z]{1,10}$/;

/** Null: it is no signature of this version. */
export function readTerms(signature: string): SignedTerms | null {
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
