import { derivedId, digestOf } from '../task/digest.ts';
import { earliest, type Envelope, type EnvelopeOptions } from '../task/envelope.ts';
import { chordLetterId, readChordLink, type ChordPlace } from '../task/chord-link.ts';
import { decodeJson, encodeJson, toBytes } from '../task/json.ts';
import { NO_KEYS, type Keyring } from '../task/keyring.ts';
import { safeKey } from '../task/names.ts';
import { redactEmbed, type Redact } from '../task/redact.ts';
import { membersOf } from '../task/json-slices.ts';
import { readOptions } from '../task/read-options.ts';
import {
  EMBED,
  encodeEmbed,
  hasFollowUps,
  readEmbed,
  readSignature,
  type Signature,
} from '../task/signature.ts';
import { OWN_HEADERS } from '../wire/header-names.ts';
import { parseInstant } from '../wire/iso-time.ts';
import { replyOf, wantsReply, type Told } from '../wire/reply.ts';
import { expandSignature, textIn, type Sending, type SendingPlace } from './expand-signature.ts';
import type { ChordPart, ChordPartEntry, EndedTask, FollowUp, Parent } from './ledger.ts';

export interface FollowDeps {
  readonly nowMs: number;
  /** The queue of a task whose signature names none; null: the one of the task before it. */
  readonly queueOf: (name: string) => string | null;
  readonly redact: Redact | null;
  readonly keyring: Keyring;
  /** Senders that wait for an answer get one. */
  readonly answers: boolean;
}

function parentOf(envelope: Envelope, options: EnvelopeOptions): Parent {
  const { id, queue } = envelope;
  const { rootId = id, deadlineMs = null, tenant } = options;
  return { id, rootId, queue, deadlineMs, ...(tenant === undefined ? {} : { tenant }) };
}

/** False only where nothing follows a task, whichever way it ends. Cheap, for every task is asked. */
export function isFollowed(envelope: Envelope, { answers }: Pick<FollowDeps, 'answers'>): boolean {
  return hasFollowUps(envelope.body) || (answers && wantsReply(envelope));
}

/**
 * What follows a task that is done: its links, the next of its chain, its part of a chord, the answer to its sender.
 * `result` is JSON text.
 */
export function afterDone(
  envelope: Envelope,
  result: string,
  deps: FollowDeps,
): readonly FollowUp[] {
  const { callbacks, chain, chord } = readEmbed(envelope.body);
  const answer = answerEntry(envelope, { status: 'SUCCESS', result }, deps);
  if (callbacks.length === 0 && !chain?.length && chord === null) return answer;
  const options = readOptions(envelope);
  const parent = parentOf(envelope, options);
  const send = (text: string, position: string, left: readonly string[] | null): FollowUp[] =>
    entriesOf(text, { position, argument: result, chain: left }, parent, deps);
  return [
    ...callbacks.flatMap((text, index) => {
      const place = readChordLink(text);
      if (place !== null) return [linkedPart(place, envelope.id, result, parent)];
      return send(text, `link:${index}`, null);
    }),
    ...(chain ?? []).slice(-1).flatMap(text => send(text, 'chain', (chain ?? []).slice(0, -1))),
    ...partEntry({ envelope, options, chord, parent }, result),
    ...answer,
  ];
}

function answerEntry(envelope: Envelope, told: Told, { answers }: FollowDeps): FollowUp[] {
  const reply = answers ? replyOf(envelope, told) : null;
  return reply === null ? [] : [{ key: `${envelope.id}/reply`, reply }];
}

/**
 * What follows a task that ended otherwise: its error links, if it is dead, and word to its chord. A death has error
 * links of its own: a task that was brought back and died again has died twice. Nothing follows what no handler may
 * run: else anybody could have his own tasks signed by us, as error links of a task that expires.
 */
export function afterEnded(ended: EndedTask, deps: FollowDeps): readonly FollowUp[] {
  const { envelope, how, epoch } = ended;
  if (deps.keyring.refusalOf(envelope) !== null || digestOf(envelope) !== envelope.digest)
    return [];
  const { errbacks, chain, chord } = readEmbed(envelope.body);
  const options = readOptions(envelope);
  const parent = parentOf(envelope, options);
  const argument = JSON.stringify(envelope.id);
  // Of a chain that ends here the last step belongs to the chord, and will never be sent.
  const lastOptions = chain?.length ? lastTask(chain[0] ?? '').options : new Map<string, string>();
  const lastChord = lastOptions.get('chord') ?? 'null';
  const ofLast: EnvelopeOptions = {
    groupId: textIn(lastOptions, 'group_id') ?? '',
    groupIndex: Number(lastOptions.get('group_index') ?? 0),
  };
  return [
    ...errbacks.flatMap((text, index) => {
      const place = readChordLink(text);
      if (place !== null) return [linkedPart(place, envelope.id, null, parent)];
      // Only a death is an error; a chord hears of every ending.
      if (how !== 'dead') return [];
      const position = `errback:${index}:${epoch}`;
      return entriesOf(text, { position, argument, chain: null }, parent, deps);
    }),
    ...partEntry({ envelope, options, chord, parent }, null),
    ...partEntry(
      { envelope, options: ofLast, chord: lastChord === 'null' ? null : lastChord, parent },
      null,
    ),
    ...answerEntry(envelope, toldOf(ended), deps),
  ];
}

/** The task that counts for a chain: of a chord at its end the body. */
function lastTask(text: string): Signature {
  const signature = readSignature(text);
  const body = membersOf(signature.kwargs).get('body');
  return signature.task === 'celery.chord' && body !== undefined ? lastTask(body) : signature;
}

/** In the words of Celery, which knows no other end without a result than failed and revoked. */
export function toldOf({ how, error, why = '' }: Pick<EndedTask, 'how' | 'error' | 'why'>): Told {
  switch (how) {
    case 'dead': {
      const unknown = { type: 'Error', message: 'see the dead letter', traceback: '' };
      return { status: 'FAILURE', error: error ?? unknown };
    }
    case 'discarded':
      return { status: 'REVOKED', why: `discarded: ${why}` };
    case 'cancelled':
      return { status: 'REVOKED', why: 'revoked' };
    case 'expired':
      return { status: 'REVOKED', why: 'expired' };
  }
}

/** Throws a plain error when what should follow a task cannot be read: better before its handler ran than after. */
export function checkFollowUps(envelope: Envelope): void {
  if (!hasFollowUps(envelope.body)) return;
  const deps: FollowDeps = {
    nowMs: 0,
    queueOf: () => null,
    redact: null,
    keyring: NO_KEYS,
    answers: false,
  };
  const entries = [
    ...afterDone(envelope, 'null', deps),
    ...afterEnded({ envelope, how: 'dead', epoch: 0 }, deps),
  ];
  for (const entry of entries) if ('part' in entry) checkPart(entry, deps);
}

/** Throws a plain error when nobody could send what a part of a chord leads to. */
export function checkPart(entry: ChordPartEntry, deps: FollowDeps): void {
  chordBody(entry, [], deps);
  chordFailure(entry, deps);
}

interface Part {
  readonly envelope: Envelope;
  readonly options: EnvelopeOptions;
  readonly chord: string | null;
  readonly parent: Parent;
}

function partEntry({ envelope, options, chord, parent }: Part, result: string | null): FollowUp[] {
  const { groupId, groupIndex } = options;
  if (chord === null || groupId === undefined || groupId === '') return [];
  const body = readSignature(chord);
  const bodyId = textIn(body.options, 'task_id');
  const part: ChordPart = {
    groupId,
    index: groupIndex ?? 0,
    size: body.chordSize,
    taskId: envelope.id,
    ...(bodyId === null ? {} : { bodyId }),
    result,
  };
  checkPlace(part);
  return [{ key: partKey(envelope.id, result), part, body: chord, parent }];
}

const MOST_PARTS = 2_147_483_647;

/** One place that a ledger cannot hold would keep all others from being counted with it. */
function checkPlace({ groupId, taskId, index, size }: ChordPart): void {
  safeKey(groupId, 'the id of a group');
  safeKey(taskId, 'the id of a part');
  const isPlace = Number.isInteger(index) && index >= 0 && index < MOST_PARTS;
  if (!isPlace || (size !== null && size > MOST_PARTS))
    throw new TypeError(`part ${index} of ${size ?? 'a chord'} is no place`);
}

/**
 * A part whose place in a chord its link says, or that somebody else has told us of. Throws a plain error when it is no
 * place.
 */
export function linkedPart(
  { groupId, index, size, body }: ChordPlace,
  taskId: string,
  result: string | null,
  parent: Parent,
): ChordPartEntry {
  const bodyId = textIn(readSignature(body).options, 'task_id');
  const part = { groupId, index, size, taskId, ...(bodyId === null ? {} : { bodyId }), result };
  checkPlace(part);
  return { key: partKey(taskId, result), part, body, parent };
}

const partKey = (taskId: string, result: string | null): string =>
  `${taskId}/chord${result === null ? '-failed' : ''}`;

/** The body of a chord, with the results of its header. */
export function chordBody(
  { part, body, parent }: ChordPartEntry,
  results: readonly string[],
  deps: FollowDeps,
): readonly Envelope[] {
  const place = {
    id: derivedId(part.groupId, 'chord'),
    argument: `[${results.join(',')}]`,
    chain: null,
  };
  return expandSignature(body, place).map(sending => toEnvelope(sending, parent, deps));
}

/** The error links of a chord's body, which take its id; and the body itself without results, for people to see. */
export function chordFailure(
  { part, body: text, parent }: ChordPartEntry,
  deps: FollowDeps,
): { readonly letter: Envelope | null; readonly errors: readonly Envelope[] } {
  const place = { id: derivedId(part.groupId, 'chord'), argument: null, chain: null };
  const [body] = expandSignature(text, place);
  if (body === undefined) return { letter: null, errors: [] };
  const { id } = body;
  const errors = body.errbacks.flatMap((errback, index) =>
    expandSignature(errback, {
      id: derivedId(id, `errback:${index}`),
      argument: JSON.stringify(id),
      chain: null,
    }),
  );
  const plain = { ...body, callbacks: [], errbacks: [], chain: null, chord: null };
  return {
    letter: toEnvelope({ ...plain, id: chordLetterId(id) }, parent, deps),
    errors: errors.map(sending => toEnvelope(sending, parent, deps)),
  };
}

function entriesOf(
  text: string,
  { position, ...place }: Omit<SendingPlace, 'id'> & { readonly position: string },
  parent: Parent,
  deps: FollowDeps,
): FollowUp[] {
  const sendings = expandSignature(text, { ...place, id: derivedId(parent.id, position) });
  return sendings.map((sending, index) => ({
    key: `${parent.id}/${position}${sendings.length === 1 ? '' : `/${index}`}`,
    publish: toEnvelope(sending, parent, deps),
  }));
}

/** A version beyond this is none of ours. */
const MAX_VERSION = 32_767;

function toEnvelope(sending: Sending, parent: Parent, deps: FollowDeps): Envelope {
  const { signature, id, args } = sending;
  const { task: name, kwargs, options } = signature;
  const { [OWN_HEADERS.schema]: schema, ...headers } = readHeaders(options.get('headers'));
  const version = Number(schema);
  const known = Number.isInteger(version) && version >= 1 && version <= MAX_VERSION ? version : 1;
  const embed = isPlain(sending) ? EMBED : encodeEmbed(sending);
  const body = toBytes(`[${args},${kwargs},${embed}]`);
  const shown = deps.redact === null ? null : deps.redact(name, { args, kwargs });
  const redacted =
    shown === null || deps.redact === null
      ? {}
      : { redacted: { ...shown, embed: redactEmbed(embed, deps.redact) } };
  const digest = digestOf({ name, id, version: known, body });
  const proof = deps.keyring.sign(digest);
  const settings: EnvelopeOptions = {
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...timesOf(sending),
    ...celeryOf(sending),
    ...(parent.deadlineMs === null ? {} : { deadlineMs: parent.deadlineMs }),
    ...(parent.tenant === undefined ? {} : { tenant: parent.tenant }),
    rootId: parent.rootId,
    parentId: parent.id,
    ...(sending.group === null
      ? {}
      : {
          groupId: safeKey(sending.group.id, 'the id of a group'),
          groupIndex: sending.group.index,
        }),
    ...(proof === undefined ? {} : { signature: proof }),
    ...redacted,
  };
  const priority = Number(options.get('priority') ?? 0);
  const queue = textIn(options, 'queue') ?? deps.queueOf(name) ?? parent.queue;
  return {
    id: safeKey(id, 'the id of what follows'),
    name: safeKey(name, 'the name of what follows'),
    queue: safeKey(queue, 'the queue of what follows'),
    priority: Number.isInteger(priority) ? Math.min(9, Math.max(0, priority)) : 0,
    version: known,
    body,
    options: toBytes(encodeJson(settings)),
    digest,
    etaMs: momentOf(options.get('countdown') ?? options.get('eta'), deps.nowMs, Math.ceil),
    expiresMs: earliest(
      momentOf(options.get('expires'), deps.nowMs, Math.floor),
      parent.deadlineMs,
    ),
  };
}

const isPlain = ({ callbacks, errbacks, chain, chord }: Sending): boolean =>
  callbacks.length + errbacks.length === 0 && chain === null && chord === null;

/** Texts as they are; other values, which only Python sends, as JSON. */
function readHeaders(text: string | undefined): Record<string, string> {
  const headers = decodeJson(text ?? 'null');
  if (typeof headers !== 'object' || headers === null) return {};
  return Object.fromEntries(
    Object.entries(headers).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : encodeJson(value ?? null),
    ]),
  );
}

function timesOf({ signature: { options } }: Sending): EnvelopeOptions {
  const ms = (key: string): number | null => {
    const seconds: unknown = JSON.parse(options.get(key) ?? 'null');
    return typeof seconds === 'number' && seconds > 0 ? seconds * 1_000 : null;
  };
  const [timeoutMs, softTimeoutMs] = [ms('time_limit'), ms('soft_time_limit')];
  return {
    ...(timeoutMs === null ? {} : { timeoutMs }),
    ...(softTimeoutMs === null ? {} : { softTimeoutMs }),
    ...(options.get('ignore_result') === 'true' ? { keepResult: false } : {}),
  };
}

const CELERY_NAMES = {
  exchange: 'exchange',
  routing_key: 'routingKey',
  reply_to: 'replyTo',
  correlation_id: 'correlationId',
  shadow: 'shadow',
} as const;

function celeryOf({ signature: { options } }: Sending): EnvelopeOptions {
  const found: Record<string, string> = {};
  for (const [theirs, ours] of Object.entries(CELERY_NAMES)) {
    const text = textIn(options, theirs);
    // A name is only shown; of the others no message takes more than a key has.
    if (text !== null) found[ours] = ours === 'shadow' ? text : safeKey(text, theirs);
  }
  return found;
}

/** Seconds from now, or a time; one without an offset is UTC, as Celery's are. What is neither counts as none. */
function momentOf(
  text: string | undefined,
  nowMs: number,
  round: (ms: number) => number,
): number | null {
  const value: unknown = JSON.parse(text ?? 'null');
  if (typeof value === 'number') return inCalendar(round(nowMs + value * 1_000));
  if (typeof value !== 'string') return null;
  const ms = parseInstant(value);
  return ms === null ? null : round(ms);
}

const LAST_MS = 8_640_000_000_000_000;

/** No database holds a time beyond this, and none can be written. */
function inCalendar(ms: number): number {
  if (Math.abs(ms) <= LAST_MS) return ms;
  throw new TypeError('it is to be sent, or to expire, at a time that is none');
}
