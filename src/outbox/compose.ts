import { LimitBook, ownAdmission } from '../admission/limits.ts';
import { permitToken } from '../admission/permit.ts';
import { outlastError } from '../errors/error.ts';
import { type SendOptions, type Task, type TaskCall, isTask } from '../task/define-task.ts';
import { derivedId, digestOf, fingerprintOf } from '../task/digest.ts';
import { earliest } from '../task/envelope.ts';
import { type WireCall, encodeInput, plainInput } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { jsonFault } from '../task/json-limits.ts';
import type { Keyring } from '../task/keyring.ts';
import { type Soon, safeKey, safeName } from '../task/names.ts';
import { type Redact, redactEmbed } from '../task/redact.ts';
import { EMBED, encodeEmbed } from '../task/signature.ts';
import { handOnHeaders } from '../wire/headers.ts';
import { addTravelling } from '../task/travelling-options.ts';
import {
  type WritableOptions,
  checkOptions,
  conflict,
  envelopeOptions,
  priorityOf,
  timesOf,
} from './compose-options.ts';
import {
  type SignatureContext,
  type SignatureStyle,
  type StepDraft,
  draftSteps,
  errorSignatures,
  linkSignatures,
  notATask,
  signatureOf,
} from './compose-step.ts';
import { type NewTask, type RedactedCopy, bodyOf } from './outbox-writer.ts';
import {
  type ChainDraft,
  type PartLinks,
  chordSignature,
  groupSignature,
  isGroupDraft,
  linksOfPart,
} from './compose-group.ts';

type Headers = Readonly<Record<string, string>>;

export interface ComposeDeps {
  readonly nowMs: number;
  readonly newId: () => string;
  readonly maxPayloadBytes: number;
  /** Null: operators see the arguments themselves. */
  readonly redact: Redact | null;
  readonly keyring: Keyring;
  /** The task that sends this one. */
  readonly parent: { readonly id: string; readonly rootId: string } | null;
  /** Headers of the task that sends it, which it has too. Left out: none. */
  readonly headers?: Headers;
  /** The context of the caller, as headers. The steps of a workflow have them as well. Left out: none. */
  readonly context?: Headers;
  /** All ids are drawn for this send. */
  readonly areIdsDrawn?: true;
  /** The queue to which the parts of chords report; null, or left out: Celery counts them, in the ledger's Redis. */
  readonly chordQueue?: string | null;
  /** The limits of a task; left out: its own. */
  readonly book?: LimitBook;
}

/** In no workflow, and without follow-ups. */
export const ALONE: Following = Object.freeze({
  links: [],
  errorLinks: [],
  chain: [],
  group: null,
  chord: null,
});

/**
 * Turns a contract, an input and options into what is sent; synchronously if the schema is synchronous. Throws before
 * anything is written. `following` is the task's position in a workflow.
 */
export function composeTask(
  given: TaskCall,
  following: Following,
  deps: ComposeDeps,
): Soon<NewTask> {
  const { task, input, options } = given;
  if (!isTask(task)) throw notATask();
  checkOptions(options);
  const call = encodeInput(task.name, task.contract, input);
  const isLast = options.link === undefined && options.linkError === undefined;
  return isLast && !(call instanceof Promise)
    ? assemble(given, { call, following }, deps)
    : composeLater(given, { call, following }, deps);
}

async function composeLater(
  given: TaskCall,
  { call, following }: { readonly call: Soon<WireCall>; readonly following: Following },
  deps: ComposeDeps,
): Promise<NewTask> {
  const encoded = await call;
  const links = await draftSteps(given.options.link);
  const errorLinks = await draftSteps(given.options.linkError);
  return assemble(given, { call: encoded, following: { ...following, links, errorLinks } }, deps);
}

function assemble(
  given: TaskCall,
  { call, following }: { readonly call: WireCall; readonly following: Following },
  deps: ComposeDeps,
): NewTask {
  const { task, input, options } = given;
  const { name, contract } = task;
  const { version } = contract;
  const id = options.id === undefined ? deps.newId() : safeName(options.id, 'task id');
  const { keyring, chordQueue: queue = null } = deps;
  const chordTelling = queue === null ? null : { queue, keyring };
  // A caller that names the id may send it again, in another context: the bytes must be the same then.
  const isFirstTime = options.id === undefined || deps.areIdsDrawn === true;
  const context = isFirstTime ? deps.context : undefined;
  const embed = embedOf(id, following, { hasIds: true, chordTelling, context });
  const { etaMs, expiresMs } = timesOf(task, options, deps.nowMs);
  const made = envelopeOptions(task, options, deps.nowMs);
  addPlace(made, following, deps);
  addHeaders(made, deps);
  const key = options.idempotencyKey;
  addTravelling(made, options);
  const redacted =
    deps.redact === null ? null : redactedCopy(name, { ...call, embed }, deps.redact);
  if (redacted !== null) made.redacted = redacted;
  addLimits(made, given, deps);
  const body = bodyOf(call, embed);
  if (embed !== EMBED) checkNesting(name, body);
  const digest = digestOf({ name, id, version, body });
  const queueName = options.queue === undefined ? contract.queue : safeName(options.queue, 'queue');
  const latestMs = earliest(expiresMs, made.deadlineMs ?? null);
  const signature = deps.keyring.sign(
    { id, queue: queueName, digest, etaMs, expiresMs: latestMs, options: made },
    deps.nowMs,
  );
  if (signature !== undefined) made.signature = signature;
  const settings = encodeJson(made);
  checkSize(name, [body, settings], deps.maxPayloadBytes);
  const orderingKey = orderingKeyOf(task, input, options);
  checkIdempotencyKey(task, input);
  // Every send draws new ids, so follow-ups are compared without them.
  const shapeOf = (): string =>
    embed === EMBED ? '' : embedOf(id, following, { hasIds: false, chordTelling });
  return {
    id,
    name,
    queue: queueName,
    priority: priorityOf(task, options),
    version,
    call,
    embed,
    settings,
    digest,
    etaMs,
    expiresMs: latestMs,
    isIdDrawn: options.id === undefined,
    idempotencyKey: key ?? null,
    fingerprint:
      key === undefined ? '' : fingerprintOf(name, version, call.args, call.kwargs + shapeOf()),
    orderingKey,
    parksKey: orderingKey !== null && (contract.ordering?.parks ?? true),
    redacted,
  };
}

/** Null if there is nothing to hide: then operators see the arguments themselves. */
function redactedCopy(
  name: string,
  { args, kwargs, embed }: RedactedCopy,
  redact: Redact,
): RedactedCopy | null {
  const shown = { ...redact(name, { args, kwargs }), embed: redactEmbed(embed, redact) };
  const isSame = shown.args === args && shown.kwargs === kwargs && shown.embed === embed;
  return isSame ? null : shown;
}

const OWN_LIMITS = new LimitBook([]);

/** What relays and workers need to apply the task's limits: they do not have its contract. */
function addLimits(
  made: WritableOptions,
  { task, input, options }: TaskCall,
  { book = OWN_LIMITS }: ComposeDeps,
): void {
  const { name, contract } = task;
  const { tenant, permit } = options;
  if (contract.admission === null && tenant === undefined && permit === undefined && book.isEmpty)
    return;
  const admission = ownAdmission(contract, plainInput(contract, input));
  const queue = options.queue ?? contract.queue;
  if (admission !== undefined) made.admission = admission;
  const rates = book.of({ name, queue, tenant, admission }).filter(({ rate }) => rate !== null);
  if (rates.length > 0) made.limited = true;
  const token = permitToken(permit, name, rates);
  if (token !== null) made.permit = token;
}

function addPlace(
  made: WritableOptions,
  { chain, group }: Following,
  { parent }: ComposeDeps,
): void {
  if (parent !== null) {
    made.rootId = parent.rootId;
    made.parentId = parent.id;
  }
  // In a chain the last step belongs to the group.
  if (group === null || chain.length > 0) return;
  made.groupId = group.id;
  made.groupIndex = group.index;
}

function addHeaders(made: WritableOptions, { headers, context }: ComposeDeps): void {
  if (headers === undefined && context === undefined) return;
  const all = handOnHeaders({ ...headers, ...context }, made.headers ?? {});
  for (const _ in all) made.headers = all;
}

/** Inputs are bounded when they are encoded, and the workflows around them here: no worker would accept more. */
function checkNesting(name: string, body: string): void {
  const fault = jsonFault(toBytes(body));
  if (fault === null) return;
  throw outlastError('ERR_INPUT_NOT_JSON', {
    message: `the workflow that begins with ${name} cannot be sent: ${fault}`,
    hint: 'Let a task send the next part of the workflow when it runs.',
    fields: { path: '' },
  });
}

/** At most three bytes per UTF-16 unit: most texts need no counting. */
function checkSize(
  name: string,
  [body, settings]: readonly [string, string],
  maxBytes: number,
): void {
  if ((body.length + settings.length) * 3 <= maxBytes) return;
  const bytes = Buffer.byteLength(body) + Buffer.byteLength(settings);
  if (bytes <= maxBytes) return;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `a ${name} of ${bytes} bytes is larger than the ${maxBytes} allowed`,
    hint: 'Store the data elsewhere and send a reference to it, or raise maxPayloadBytes.',
    fields: { bytes, maxBytes },
  });
}

/** A key that no store can hold would be found by the worker, where the caller can no longer correct it. */
function checkIdempotencyKey({ name, contract }: Task, input: unknown): void {
  const key = contract.idempotent?.key ?? null;
  if (key !== null) safeKey(key(plainInput(contract, input)), `the idempotency key of ${name}`);
}

/** A row that waits for its eta would hold back all that were committed after it, or be overtaken: neither is an order. */
function orderingKeyOf(task: Task, input: unknown, options: SendOptions): string | null {
  const { ordering } = task.contract;
  const key = options.orderingKey ?? ordering?.key(plainInput(task.contract, input));
  if (key === undefined) return null;
  const time = options.eta === undefined ? 'countdown' : 'eta';
  if (options[time] !== undefined) {
    throw conflict(
      [options.orderingKey === undefined ? 'ordering' : 'orderingKey', time],
      `${task.name} has an ordering key and a time of its own: it cannot be published in order and later`,
    );
  }
  return safeKey(key, 'orderingKey');
}

/** What follows a task, and the workflow it belongs to. */
export interface Following {
  readonly links: readonly StepDraft[];
  readonly errorLinks: readonly StepDraft[];
  /** The steps after it; empty outside of a chain. */
  readonly chain: readonly ChainDraft[];
  readonly group: { readonly id: string; readonly index: number } | null;
  /** The body of the chord whose header it, or the last step of its chain, belongs to. */
  readonly chord: {
    readonly body: StepDraft;
    readonly bodyId: string;
    readonly size: number;
    /** The steps after the body. */
    readonly rest: readonly ChainDraft[];
  } | null;
}

/** The ids of a chain's steps: the same for the same first task, so that sending it again sends nothing new. */
export function chainIds(firstId: string, steps: readonly ChainDraft[]): readonly string[] {
  return steps.map((step, index) => {
    const given = isGroupDraft(step) ? null : step.id;
    return given ?? derivedId(firstId, `chain:${index + 1}`);
  });
}

/** The third part of a body, as Celery writes it. */
function embedOf(id: string, following: Following, style: SignatureStyle): string {
  const { links, errorLinks, chain, chord } = following;
  if (links.length + errorLinks.length + chain.length === 0 && chord === null) return EMBED;
  const isPart = chain.length === 0;
  const body = bodySignature(following, style);
  const ofPart = partLinks(id, following, body, style);
  return encodeEmbed({
    callbacks: [...linkSignatures(links, id, style), ...(isPart ? ofPart.links : [])],
    errbacks: [...errorSignatures(errorLinks, style), ...ofPart.errorLinks],
    chain: isPart ? null : chainOf(id, following, { body, ofPart }, style),
    chord: isPart && style.chordTelling === null ? body : null,
  });
}

function partLinks(
  id: string,
  { chain, group, chord }: Following,
  body: string | null,
  style: SignatureStyle,
): PartLinks {
  const position =
    group === null || chord === null || body === null
      ? null
      : { groupId: group.id, index: group.index, size: chord.size, body };
  return linksOfPart(position, chainIds(id, chain).at(-1) ?? id, style);
}

/** Group and chord count when the last step is done. */
function chainOf(
  id: string,
  { chain, group }: Following,
  { body, ofPart }: { readonly body: string | null; readonly ofPart: PartLinks },
  style: SignatureStyle,
): readonly string[] {
  const ofLast = {
    group_id: group === null || !style.hasIds ? undefined : JSON.stringify(group.id),
    group_index: group === null ? undefined : String(group.index),
    chord: style.chordTelling === null ? (body ?? undefined) : undefined,
  };
  return chainSignatures({ id, steps: chain, ofLast, ofPart }, style);
}

interface Chain {
  /** The id of the task before it. */
  readonly id: string;
  readonly steps: readonly ChainDraft[];
  /** Options of its last step. */
  readonly ofLast?: Readonly<Record<string, string | undefined>>;
  /** The whole chain is a part of a chord. */
  readonly ofPart?: PartLinks;
}

/**
 * In reverse, so that the next one is the last. A group and the task after it are a chord. Where Celery counts they are
 * one step, as in Celery, and what follows stays in the chain; the worker that sends the header passes it to the body.
 * Where we count they are a group, which ends the chain: its members know the body, and the body knows what follows.
 */
function chainSignatures(
  { id, steps, ofLast = {}, ofPart }: Chain,
  style: SignatureStyle,
): readonly string[] {
  const ids = chainIds(id, steps);
  const idAt = (index: number): string => ids[index] ?? '';
  const taskAt = (
    index: number,
    draft: StepDraft,
    more: Partial<SignatureContext> = {},
  ): string => {
    const isLast = index === steps.length - 1;
    const options = { ...(isLast ? ofLast : {}), ...more.options };
    const links = isLast ? (ofPart?.links ?? []) : [];
    const errorLinks = ofPart?.errorLinks ?? [];
    return signatureOf(draft, { ...more, id: idAt(index), options, links, errorLinks }, style);
  };
  const from = (index: number): readonly string[] => {
    const [draft, body] = steps.slice(index, index + 2);
    if (draft === undefined) return [];
    if (!isGroupDraft(draft)) return [taskAt(index, draft), ...from(index + 1)];
    // Of two consecutive groups the first would have no body: `chain` refuses them.
    if (body === undefined || isGroupDraft(body))
      return [groupSignature(idAt(index), draft, style)];
    if (style.chordTelling === null) {
      const header = groupSignature(idAt(index), draft, style);
      const parts = { header, body: taskAt(index + 1, body) };
      return [chordSignature(idAt(index), parts, style), ...from(index + 2)];
    }
    const rest = from(index + 2);
    const options = chainOption(rest.toReversed());
    const text = taskAt(index + 1, body, { options, chordSize: draft.members.length });
    return [groupSignature(idAt(index), draft, style, text)];
  };
  return from(0).toReversed();
}

const chainOption = (chain: readonly string[]): Readonly<Record<string, string>> =>
  chain.length === 0 ? {} : { chain: `[${chain.join(',')}]` };

function bodySignature({ chord }: Following, style: SignatureStyle): string | null {
  if (chord === null) return null;
  const { body, bodyId, size, rest } = chord;
  const options = chainOption(chainSignatures({ id: bodyId, steps: rest }, style));
  return signatureOf(body, { id: bodyId, chordSize: size, options }, style);
}
