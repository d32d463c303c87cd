import { outlastError } from '../errors/error.ts';
import { inRange } from '../task/contract.ts';
import type { SendOptions, Task, TaskCall } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { digestOf, fingerprintOf } from '../task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { encodeInput, plainInput } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { safeKey, safeName } from '../task/names.ts';
import { redactEmbed, type Redact } from '../task/redact.ts';
import { EMBED } from '../task/signature.ts';
import { checkOptions, conflict, envelopeOptions, etaOf, expiresOf } from './compose-options.ts';
import { embedOf, type Following } from './compose-embed.ts';
import { draftSteps, notATask } from './compose-step.ts';
import type { NewTask, RedactedCopy } from './outbox-writer.ts';

export interface ComposeDeps {
  readonly nowMs: number;
  readonly newId: () => string;
  readonly maxPayloadBytes: number;
  /** Null: people see the arguments themselves. */
  readonly redact: Redact | null;
  /** The task that sends this one. */
  readonly parent: { readonly id: string; readonly rootId: string } | null;
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
  const following: Following = {
    ...place,
    links: await draftSteps(options.link),
    errorLinks: await draftSteps(options.linkError),
  };
  const id = options.id === undefined ? deps.newId() : safeName(options.id, 'task id');
  const embed = embedOf(id, following, { hasIds: true });
  const body = toBytes(`[${call.args},${call.kwargs},${embed}]`);
  const redacted = redactedCopy(name, { ...call, embed }, deps.redact);
  const settings = toBytes(
    encodeJson({
      ...envelopeOptions(task, options, deps.nowMs),
      ...placeOptions(following, deps),
      ...(key === undefined ? {} : { idempotencyKey: safeKey(key, 'idempotencyKey') }),
      ...(redacted === null ? {} : { redacted }),
    }),
  );
  checkSize(name, body.length + settings.length, deps.maxPayloadBytes);
  const { version } = contract;
  const envelope: Envelope = {
    id,
    name,
    queue: safeName(options.queue ?? contract.queue, 'queue'),
    priority: inRange(options.priority ?? contract.priority, 'priority', 0, 9),
    version,
    body,
    options: settings,
    digest: digestOf({ name, id, version, body }),
    etaMs: etaOf(options, deps.nowMs),
    expiresMs: expiresOf(task, options, deps.nowMs),
  };
  const orderingKey = orderingKeyOf(task, input, options);
  // Ids are drawn anew by every send, so what follows is compared without them.
  const shape = embed === EMBED ? '' : embedOf(id, following, { hasIds: false });
  return {
    envelope,
    call,
    embed,
    idempotencyKey: key ?? null,
    fingerprint: fingerprintOf(name, version, call.args, call.kwargs + shape),
    orderingKey,
    parksKey: orderingKey !== null && (contract.ordering?.parks ?? true),
    redacted,
  };
}

/** Null where there is nothing to hide: then people see the arguments themselves. */
function redactedCopy(
  name: string,
  { args, kwargs, embed }: RedactedCopy,
  redact: Redact | null,
): RedactedCopy | null {
  if (redact === null) return null;
  const shown = { ...redact(name, { args, kwargs }), embed: redactEmbed(embed, redact) };
  const isSame = shown.args === args && shown.kwargs === kwargs && shown.embed === embed;
  return isSame ? null : shown;
}

function placeOptions({ chain, group }: Following, { parent }: ComposeDeps): EnvelopeOptions {
  return {
    ...(parent === null ? {} : { rootId: parent.rootId, parentId: parent.id }),
    // In a chain the last step belongs to the group.
    ...(group === null || chain.length > 0 ? {} : { groupId: group.id, groupIndex: group.index }),
  };
}

function checkSize(name: string, bytes: number, maxBytes: number): void {
  if (bytes <= maxBytes) return;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `a ${name} of ${bytes} bytes is larger than the ${maxBytes} allowed`,
    hint: 'Store the data elsewhere and send a reference to it, or raise maxPayloadBytes.',
    fields: { bytes, maxBytes },
  });
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
