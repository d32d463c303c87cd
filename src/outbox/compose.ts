import { LimitBook } from '../admission/limits.ts';
import { permitToken } from '../admission/permit.ts';
import { ownAdmission } from '../admission/subject.ts';
import { outlastError } from '../errors/error.ts';
import type { SendOptions, Task, TaskCall } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { digestOf, fingerprintOf } from '../task/digest.ts';
import { earliest } from '../task/envelope.ts';
import { encodeInput, plainInput, type WireCall } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { jsonFault } from '../task/json-limits.ts';
import type { Keyring } from '../task/keyring.ts';
import { safeKey, safeName } from '../task/names.ts';
import { redactEmbed, type Redact } from '../task/redact.ts';
import { EMBED } from '../task/signature.ts';
import type { Soon } from '../task/soon.ts';
import { handOnHeaders } from '../wire/user-headers.ts';
import { addTravelling } from '../task/travelling-options.ts';
import {
  checkOptions,
  conflict,
  envelopeOptions,
  priorityOf,
  timesOf,
  type WritableOptions,
} from './compose-options.ts';
import { embedOf, type Following } from './compose-embed.ts';
import { draftSteps, notATask } from './compose-step.ts';
import { bodyOf, type NewTask, type RedactedCopy } from './outbox-writer.ts';

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
