import { LimitBook } from '../admission/limits.ts';
import { permitToken } from '../admission/permit.ts';
import { ownAdmission } from '../admission/subject.ts';
import { outlastError } from '../errors/error.ts';
import { inRange } from '../task/contract.ts';
import type { SendOptions, Task, TaskCall } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { digestOf, fingerprintOf } from '../task/digest.ts';
import { earliest, type Envelope } from '../task/envelope.ts';
import { encodeInput, plainInput } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import type { Keyring } from '../task/keyring.ts';
import { safeKey, safeName } from '../task/names.ts';
import { redactEmbed, type Redact } from '../task/redact.ts';
import { EMBED } from '../task/signature.ts';
import {
  checkOptions,
  conflict,
  envelopeOptions,
  etaOf,
  expiresOf,
  type WritableOptions,
} from './compose-options.ts';
import { embedOf, type Following } from './compose-embed.ts';
import { draftSteps, notATask } from './compose-step.ts';
import type { NewTask, RedactedCopy } from './outbox-writer.ts';

export interface ComposeDeps {
  readonly nowMs: number;
  readonly newId: () => string;
  readonly maxPayloadBytes: number;
  /** Null: people see the arguments themselves. */
  readonly redact: Redact | null;
  readonly keyring: Keyring;
  /** The task that sends this one. */
  readonly parent: { readonly id: string; readonly rootId: string } | null;
  /** Which limits a task is under; left out: its own. */
  readonly book?: LimitBook;
}

/** Where a task stands in a workflow. */
export type Place = Pick<Following, 'chain' | 'group' | 'chord'>;

/** In none. */
export const ALONE: Place = Object.freeze({ chain: [], group: null, chord: null });

/** Turns a contract, an input and options into what travels. Throws before anything is written. */
export async function composeTask(
  { task, input, options }: TaskCall,
  place: Place,
  deps: ComposeDeps,
): Promise<NewTask> {
  if (!isTask(task)) throw notATask();
  checkOptions(options);
  const { name, contract } = task;
  const key = options.idempotencyKey;
  const call = await encodeInput(name, contract, input);
  const { chain, group, chord } = place;
  const links = options.link === undefined ? [] : await draftSteps(options.link);
  const errorLinks = options.linkError === undefined ? [] : await draftSteps(options.linkError);
  const following: Following = { chain, group, chord, links, errorLinks };
  const id = options.id === undefined ? deps.newId() : safeName(options.id, 'task id');
  const embed = embedOf(id, following, { hasIds: true });
  const text = `[${call.args},${call.kwargs},${embed}]`;
  const body = toBytes(text);
  const { redact } = deps;
  const redacted = redact === null ? null : redactedCopy(name, { ...call, embed }, redact);
  const made = envelopeOptions(task, options, deps.nowMs);
  addPlace(made, following, deps);
  if (key !== undefined) made.idempotencyKey = safeKey(key, 'idempotencyKey');
  if (redacted !== null) made.redacted = redacted;
  addLimits(made, { task, input, options }, deps);
  const { version } = contract;
  const digest = digestOf({ name, id, version, body: text });
  const signature = deps.keyring.sign(digest);
  if (signature !== undefined) made.signature = signature;
  const settings = toBytes(encodeJson(made));
  checkSize(name, body.length + settings.length, deps.maxPayloadBytes);
  const envelope: Envelope = {
    id,
    name,
    queue: safeName(options.queue ?? contract.queue, 'queue'),
    priority: inRange(options.priority ?? contract.priority, 'priority', 0, 9),
    version,
    body,
    options: settings,
    digest,
    etaMs: etaOf(options, deps.nowMs),
    expiresMs: earliest(expiresOf(task, options, deps.nowMs), made.deadlineMs ?? null),
  };
  const orderingKey = orderingKeyOf(task, input, options);
  checkIdempotencyKey(task, input);
  // Ids are drawn anew by every send, so what follows is compared without them.
  const shapeOf = (): string => (embed === EMBED ? '' : embedOf(id, following, { hasIds: false }));
  return {
    envelope,
    call,
    isIdDrawn: options.id === undefined,
    embed,
    idempotencyKey: key ?? null,
    fingerprint:
      key === undefined ? '' : fingerprintOf(name, version, call.args, call.kwargs + shapeOf()),
    orderingKey,
    parksKey: orderingKey !== null && (contract.ordering?.parks ?? true),
    redacted,
  };
}

/** Null where there is nothing to hide: then people see the arguments themselves. */
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

/** What relays and workers must know to hold the task to its limits: they do not have its contract. */
function addLimits(
  made: WritableOptions,
  { task, input, options }: TaskCall,
  { book = OWN_LIMITS }: ComposeDeps,
): void {
  const { name, contract } = task;
  const { tenant, permit } = options;
  const admission = ownAdmission(contract, plainInput(contract, input));
  const queue = options.queue ?? contract.queue;
  if (tenant !== undefined) made.tenant = safeKey(tenant, 'tenant');
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

function checkSize(name: string, bytes: number, maxBytes: number): void {
  if (bytes <= maxBytes) return;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `a ${name} of ${bytes} bytes is larger than the ${maxBytes} allowed`,
    hint: 'Store the data elsewhere and send a reference to it, or raise maxPayloadBytes.',
    fields: { bytes, maxBytes },
  });
}

/** A key that no store can hold would be found by the worker, where nobody can correct it. */
function checkIdempotencyKey({ name, contract }: Task, input: unknown): void {
  const key = contract.idempotent?.key ?? null;
  if (key !== null) safeKey(key(plainInput(contract, input)), `the idempotency key of ${name}`);
}

/** A row that waits for its time would hold back all that were committed after it, or be overtaken: neither is an order. */
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
