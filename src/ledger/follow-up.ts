import { derivedId, digestOf } from '../task/digest.ts';
import { type Envelope, type EnvelopeOptions, earliest } from '../task/envelope.ts';
import { chordLetterId, readChordLink } from '../task/chord-link.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { type Keyring, NO_KEYS } from '../task/keyring.ts';
import { safeKey } from '../task/names.ts';
import { type Redact, redactEmbed } from '../task/redact.ts';
import { readOptions } from '../task/read-options.ts';
import { EMBED, encodeEmbed, hasFollowUps, readEmbed } from '../task/signature.ts';
import { beforeIn } from '../task/trace-headers.ts';
import { inheritedOf } from '../task/travelling-options.ts';
import { OWN_HEADERS, handOnHeaders } from '../wire/headers.ts';
import { type ReportedEnd, replyOf, wantsReply } from '../wire/reply.ts';
import { childrenAfter } from './follow-up-log.ts';
import { endOfChain } from './chain-end.ts';
import { countedPosition } from './open-chord.ts';
import { linkedPart, partEntry } from './chord-part-entry.ts';
import { type NeverSent, neverSent, repliesOf } from './never-sent.ts';
import { isTooMuch, weighFollowUps, weighSignature } from './weigh-follow-ups.ts';
import { NO_INDEX, type SendContext, type Sending, expandSignature } from './expand-signature.ts';
import type {
  ChordAnswer,
  ChordPartEntry,
  EndedTask,
  ErrorRecord,
  FollowUp,
  Parent,
} from './ledger.ts';
import {
  type Routing,
  addressOf,
  jsonHeadersIn,
  momentOf,
  readHeaders,
  stampsIn,
  timesOf,
} from './signature-options.ts';

export interface FollowDeps extends Routing {
  readonly nowMs: number;
  readonly redact: Redact | null;
  readonly keyring: Keyring;
  /** Senders that wait for an answer get one. */
  readonly answers: boolean;
  /** Celery's workers count parts of chords in the ledger too, and know a chord by its group id alone. */
  readonly countsWithCelery?: boolean;
  /** The chords that are sent here are counted in Celery's result backend, which is told their sizes before. */
  readonly countsUnsized?: boolean;
  /** Headers of the run that is followed. Left out: nothing is traced. */
  readonly trace?: Readonly<Record<string, string>>;
}

function parentOf(
  envelope: Envelope,
  options: EnvelopeOptions,
  { keyring, trace }: Pick<FollowDeps, 'keyring' | 'trace'>,
): Parent {
  const { id, queue } = envelope;
  const { rootId = id, deadlineMs = null } = options;
  const headers = trace === undefined ? options.headers : { ...options.headers, ...trace };
  return {
    id,
    rootId,
    queue,
    deadlineMs,
    ...inheritedOf(options),
    ...(headers === undefined ? {} : { headers }),
    ...(keyring.isSigned(envelope) ? { isSigned: true } : {}),
  };
}

/** False only if nothing follows a task, whichever way it ends. Cheap, because every task is checked. */
export function isFollowed(envelope: Envelope, { answers }: Pick<FollowDeps, 'answers'>): boolean {
  return hasFollowUps(envelope.body) || (answers && wantsReply(envelope));
}

/**
 * The follow-ups of a task that is done: its links, the next step of its chain, its part of a chord, the answer to its
 * sender. `result` is JSON text.
 */
export function afterDone(
  envelope: Envelope,
  result: string,
  deps: FollowDeps,
): readonly FollowUp[] {
  const { callbacks, chain, chord } = readEmbed(envelope.body);
  const isLast = callbacks.length === 0 && !chain?.length;
  const children = isLast || !deps.answers ? null : childrenAfter(envelope);
  const answer = answerEntry(envelope, { status: 'SUCCESS', result, children }, deps);
  if (isLast && chord === null) return answer;
  weighFollowUps(envelope.body, result.length);
  const options = readOptions(envelope);
  const parent = parentOf(envelope, options, deps);
  const send = (text: string, position: string, left: readonly string[] | null): FollowUp[] =>
    entriesOf(text, { position, argument: result, chain: left }, parent, deps);
  return [
    ...callbacks.flatMap((text, index) => {
      const inChord = readChordLink(text);
      if (inChord !== null)
        return [
          linkedPart(countedPosition(text, inChord, parent, deps), envelope.id, result, parent),
        ];
      return send(text, `link:${index}`, null);
    }),
    ...(chain ?? []).slice(-1).flatMap(text => send(text, 'chain', (chain ?? []).slice(0, -1))),
    ...partEntry({ envelope, options, chord, parent }, result, deps),
    ...answer,
  ];
}

function answerEntry(envelope: Envelope, told: ReportedEnd, { answers }: FollowDeps): FollowUp[] {
  const reply = answers ? replyOf(envelope, told) : null;
  return reply === null ? [] : [{ key: `${envelope.id}/reply`, reply }];
}

/**
 * The follow-ups of a task that ended otherwise: its error links, if it is dead, and a notification to its chord. Each
 * death sends its own error links: a task that was revived and died again has died twice. A task that no handler may run
 * has none: otherwise any sender could have us sign his tasks, as error links of a task that expires.
 */
export function afterEnded(ended: EndedTask, deps: FollowDeps): readonly FollowUp[] {
  const { envelope, how, epoch } = ended;
  if (deps.keyring.refusalOf(envelope) !== null || digestOf(envelope) !== envelope.digest)
    return [];
  const { errbacks, chain, chord } = readEmbed(envelope.body);
  const options = readOptions(envelope);
  const parent = parentOf(envelope, options, deps);
  const argument = JSON.stringify(envelope.id);
  const why = errorOf(ended);
  // If a chain ends here, its last step belongs to the chord, and will never be sent.
  const [last] = chain ?? [];
  return [
    ...(isTooMuch(envelope.body, argument) ? [] : errbacks).flatMap((text, index) => {
      const inChord = readChordLink(text);
      if (inChord !== null)
        return [linkedPart(countedPosition(text, inChord, parent, deps), envelope.id, why, parent)];
      // Only a death is an error; a chord is notified of every ending.
      if (how !== 'dead') return [];
      const position = `errback:${index}:${epoch}`;
      return entriesOf(text, { position, argument, chain: null }, parent, deps);
    }),
    ...partEntry({ envelope, options, chord, parent }, why, deps),
    ...(last === undefined ? [] : partEntry({ envelope, parent, ...endOfChain(last) }, why, deps)),
    ...answerEntry(envelope, reportedEnd(ended), deps),
    ...restAnswers(ended, chain ?? [], deps),
  ];
}

/** The answers to callers that wait for later steps of its chain, which are never sent. */
function restAnswers(
  ended: EndedTask,
  chain: readonly string[],
  { answers }: FollowDeps,
): FollowUp[] {
  if (!answers || chain.length === 0) return [];
  const replies = repliesOf(neverSent(chain), reportedEnd(ended));
  return replies.map((reply, index) => ({ key: `${ended.envelope.id}/rest:${index}`, reply }));
}

/**
 * The later steps of its chain, which are never sent. None where tasks are signed and this one is not: its sender chose their
 * ids, and could have us report the end of tasks that are not his.
 */
export function stepsAfter(
  { envelope }: EndedTask,
  { keyring }: Pick<FollowDeps, 'keyring'>,
): readonly NeverSent[] {
  const isTrusted = keyring.isSigning ? keyring.isSigned(envelope) : true;
  if (!isTrusted || digestOf(envelope) !== envelope.digest) return [];
  try {
    return neverSent(readEmbed(envelope.body).chain ?? []);
  } catch {
    return [];
  }
}

/** Why a task has no result, for the chord that it is in; null: it is unknown. */
function errorOf(ended: EndedTask): ErrorRecord | null {
  const told = reportedEnd(ended);
  if (told.status === 'FAILURE') return ended.error ?? null;
  return {
    type: 'TaskRevokedError',
    message: told.status === 'REVOKED' ? told.why : '',
    traceback: '',
  };
}

/** In Celery's terms, which knows only failed and revoked as endings without a result. */
export function reportedEnd({
  how,
  error,
  why = '',
}: Pick<EndedTask, 'how' | 'error' | 'why'>): ReportedEnd {
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

/**
 * Throws a plain error when the follow-ups of a task cannot be read, and ERR_FOLLOW_UPS_TOO_LARGE when they are too large:
 * better before its handler ran than after.
 */
export function checkFollowUps(envelope: Envelope): void {
  if (!hasFollowUps(envelope.body)) return;
  weighFollowUps(envelope.body, 0);
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

/** Throws a plain error when the body that a part of a chord leads to could not be sent. */
export function checkPart(entry: ChordPartEntry, deps: FollowDeps): void {
  chordBody(entry, { results: [], isSigned: false }, deps);
  chordFailure(entry, deps);
}

/** The body of a chord, with the results of its header. It is signed if each of them comes from a signed task. */
export function chordBody(
  { part, body, parent: { isSigned: _last, ...parent } }: ChordPartEntry,
  {
    results,
    isSigned,
  }: Pick<Extract<ChordAnswer, { readonly status: 'complete' }>, 'results' | 'isSigned'>,
  deps: FollowDeps,
): readonly Envelope[] {
  const length = results.reduce((sum, result) => sum + result.length + 1, 2);
  weighSignature(body, length);
  const context = {
    id: derivedId(part.groupId, 'chord'),
    argument: `[${results.join(',')}]`,
    chain: null,
    countsUnsized: deps.countsUnsized,
  };
  const from: Parent = isSigned ? { ...parent, isSigned } : parent;
  return expandSignature(body, context).map(sending => toEnvelope(sending, from, deps));
}

/**
 * The error links of a chord's body, which take its id; the tasks that are not sent now; and the body itself without results,
 * for people to see.
 */
export function chordFailure(
  { part, body: text, parent }: ChordPartEntry,
  deps: FollowDeps,
): {
  readonly letter: Envelope | null;
  readonly errors: readonly Envelope[];
  readonly steps: readonly NeverSent[];
} {
  weighSignature(text, 0);
  const context = { id: derivedId(part.groupId, 'chord'), argument: null, chain: null };
  const [body] = expandSignature(text, context);
  if (body === undefined) return { letter: null, errors: [], steps: [] };
  const { id } = body;
  const errors = body.errbacks.flatMap((errback, index) =>
    expandSignature(errback, {
      id: derivedId(id, `errback:${index}`),
      argument: JSON.stringify(id),
      chain: null,
      countsUnsized: deps.countsUnsized,
    }),
  );
  const plain = { ...body, callbacks: [], errbacks: [], chain: null, chord: null };
  return {
    letter: toEnvelope({ ...plain, id: chordLetterId(id) }, parent, deps),
    errors: errors.map(sending => toEnvelope(sending, parent, deps)),
    steps: neverSent([text]),
  };
}

function entriesOf(
  text: string,
  { position, ...context }: Omit<SendContext, 'id'> & { readonly position: string },
  parent: Parent,
  deps: FollowDeps,
): FollowUp[] {
  const sendings = expandSignature(text, {
    ...context,
    id: derivedId(parent.id, position),
    countsUnsized: deps.countsUnsized,
  });
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
  const { [OWN_HEADERS.schema]: schema, ...own } = readHeaders(options.get('headers'));
  const headers =
    parent.headers === undefined
      ? own
      : handOnHeaders(parent.headers, beforeIn(parent.headers, own));
  const version = Number(schema);
  const known = Number.isInteger(version) && version >= 1 && version <= MAX_VERSION ? version : 1;
  const embed = isPlain(sending) ? EMBED : encodeEmbed(sending);
  const body = toBytes(`[${args},${kwargs},${embed}]`);
  const shown = deps.redact === null ? null : deps.redact(name, { args, kwargs });
  const redacted =
    shown === null || deps.redact === null
      ? {}
      : { redacted: { ...shown, embed: redactEmbed(embed, deps.redact) } };
  const { queue, priority, ...named } = addressOf(sending, parent.queue, deps);
  const settings: EnvelopeOptions = {
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...timesOf(sending),
    // A signature covers texts only.
    ...(parent.isSigned === true ? {} : { ...stampsIn(sending), ...jsonHeadersIn(sending) }),
    ...named,
    ...(parent.deadlineMs === null ? {} : { deadlineMs: parent.deadlineMs }),
    ...inheritedOf(parent),
    rootId: parent.rootId,
    parentId: parent.id,
    ...(sending.group === null
      ? {}
      : {
          groupId: safeKey(sending.group.id, 'the id of a group'),
          ...(sending.group.index === NO_INDEX ? {} : { groupIndex: sending.group.index }),
        }),
    ...(sending.announced === undefined ? {} : { announced: sending.announced }),
    ...redacted,
  };
  const made = {
    id: safeKey(id, 'the id of what follows'),
    name: safeKey(name, 'the name of what follows'),
    queue: safeKey(queue, 'the queue of what follows'),
    priority,
    version: known,
    body,
    digest: digestOf({ name, id, version: known, body }),
    etaMs: momentOf(options.get('countdown') ?? options.get('eta'), deps.nowMs, Math.ceil),
    expiresMs: earliest(
      momentOf(options.get('expires'), deps.nowMs, Math.floor),
      parent.deadlineMs,
    ),
  };
  return { ...made, options: toBytes(encodeJson(signed(made, settings, parent, deps))) };
}

/** Only if the holder of a key has sent the task before it: follow-ups that other senders asked for stay unsigned. */
function signed(
  made: Omit<Envelope, 'options'>,
  options: EnvelopeOptions,
  parent: Parent,
  { keyring, nowMs }: FollowDeps,
): EnvelopeOptions {
  if (parent.isSigned !== true) return options;
  const signature = keyring.sign({ ...made, options }, nowMs);
  return signature === undefined ? options : { ...options, signature };
}

const isPlain = ({ callbacks, errbacks, chain, chord }: Sending): boolean =>
  callbacks.length + errbacks.length === 0 && chain === null && chord === null;
