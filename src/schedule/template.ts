import { hash } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import { ALONE, composeTask, type ComposeDeps } from '../outbox/compose.ts';
import { bodyOf, type NewTask } from '../outbox/outbox-writer.ts';
import type { SendOptions, TaskCall } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { derivedId, digestOf, sized } from '../task/digest.ts';
import { earliest, type EnvelopeOptions } from '../task/envelope.ts';
import { encodeJson } from '../task/json.ts';
import type { Keyring } from '../task/keyring.ts';
import { NO_KEYS } from '../task/keyring.ts';
import { SCHEDULE_HEADER, SLOT_HEADER } from '../task/schedule-headers.ts';
import { EMBED } from '../task/signature.ts';
import type { Definition, Template } from './definition.ts';

/** Options that make no sense for a task that is sent again and again. */
const REFUSED = ['id', 'idempotencyKey', 'eta', 'permit', 'link', 'linkError'] as const;

/** Checks and encodes a call once, for all slots. */
export async function composeTemplate(
  schedule: string,
  call: TaskCall,
  deps: Omit<ComposeDeps, 'newId' | 'parent' | 'keyring'>,
): Promise<Template> {
  checkCall(schedule, call);
  const made = await composeTask(call, ALONE, {
    ...deps,
    keyring: NO_KEYS,
    newId: () => slotId(schedule, 0),
    parent: null,
  });
  const { deadlineMs, ...settings } = JSON.parse(made.settings) as EnvelopeOptions;
  const since = (ms: number | null): number | null => (ms === null ? null : ms - deps.nowMs);
  const { countdown, expires } = call.options;
  const { contract } = call.task;
  return {
    name: made.name,
    queue: made.queue,
    priority: made.priority,
    version: made.version,
    args: made.call.args,
    kwargs: made.call.kwargs,
    settings: JSON.stringify(settings),
    orderingKey: made.orderingKey,
    parksKey: made.parksKey,
    redacted: made.redacted,
    countdownMs: countdown === undefined ? null : since(made.etaMs),
    expiresMs: expires === undefined && contract.expiresMs === null ? null : since(made.expiresMs),
    deadlineMs: since(deadlineMs ?? null),
  };
}

function checkCall(schedule: string, call: TaskCall): void {
  if (typeof call !== 'object' || call === null || !isTask(call.task))
    throw invalid(
      schedule,
      '`call` is not a task with its input',
      'Write call: nightly.with(input). For a workflow, let a task send it.',
    );
  const { options } = call;
  const wrong = REFUSED.find(key => options[key] !== undefined);
  if (wrong !== undefined)
    throw invalid(
      schedule,
      `\`${wrong}\` cannot be given to a task that is sent for every slot`,
      wrong.startsWith('link') ? 'Let the task send what follows it.' : `Leave \`${wrong}\` out.`,
    );
  const date = (['expires', 'deadline'] as const).find(key => isInstant(options, key));
  if (date !== undefined)
    throw invalid(schedule, `\`${date}\` is an instant`, "Give a length, for example '1h'.");
  const taken = [SCHEDULE_HEADER, SLOT_HEADER].find(key => options.headers?.[key] !== undefined);
  if (taken !== undefined)
    throw invalid(schedule, `the header \`${taken}\` is written by schedules`, 'Rename it.');
}

const isInstant = (options: SendOptions, key: 'expires' | 'deadline'): boolean =>
  options[key] instanceof Date;

export function invalid(schedule: string, problem: string, hint: string): Error {
  return outlastError('ERR_SCHEDULE_INVALID', {
    message: `schedule ${schedule}: ${problem}`,
    hint,
    fields: { schedule },
  });
}

/** The same schedule and slot give the same id, so that a repeat is a copy and not a new task. */
export const slotId = (schedule: string, slotMs: number): string =>
  derivedId(`schedule:${schedule}`, String(slotMs));

/** Where in its jitter a slot lies: the same in every process. */
function jitterOf(schedule: string, slotMs: number, jitterMs: number): number {
  if (jitterMs === 0) return 0;
  const drawn = Number.parseInt(hash('sha256', sized(schedule) + slotMs).slice(0, 12), 16);
  return Math.floor((drawn / 2 ** 48) * jitterMs);
}

export interface Firing {
  readonly schedule: string;
  readonly id: string;
  /** Null: it was asked for, and belongs to no slot. */
  readonly slotMs: number | null;
  readonly nowMs: number;
}

/** The task of one slot. */
export function taskOf(definition: Definition, firing: Firing, keyring: Keyring): NewTask {
  const { task, jitterMs, overlap } = definition;
  const { schedule, id, slotMs, nowMs } = firing;
  const { name, queue, priority, version, orderingKey, parksKey, redacted } = task;
  const spreadMs = slotMs === null ? 0 : jitterOf(schedule, slotMs, jitterMs);
  const delayMs = spreadMs + (task.countdownMs ?? 0);
  const etaMs = delayMs === 0 ? null : (slotMs ?? nowMs) + delayMs;
  const own = JSON.parse(task.settings) as EnvelopeOptions;
  const slot = slotMs === null ? {} : { [SLOT_HEADER]: new Date(slotMs).toISOString() };
  const deadlineMs = task.deadlineMs === null ? null : nowMs + spreadMs + task.deadlineMs;
  const options: EnvelopeOptions = {
    ...own,
    headers: { ...own.headers, [SCHEDULE_HEADER]: schedule, ...slot },
    ...(deadlineMs === null ? {} : { deadlineMs }),
    // The row stays until the task is over: only so is it known, whatever the broker is.
    ...(overlap === 'allow' ? {} : { receipt: true as const }),
  };
  const afterMs = task.expiresMs === null ? null : nowMs + spreadMs + task.expiresMs;
  const expiresMs = earliest(afterMs, deadlineMs);
  const call = { args: task.args, kwargs: task.kwargs };
  const digest = digestOf({ name, id, version, body: bodyOf(call, EMBED) });
  const signature = keyring.sign({ id, queue, digest, etaMs, expiresMs, options }, nowMs);
  return {
    id,
    name,
    queue,
    priority,
    version,
    call,
    embed: EMBED,
    settings: encodeJson(signature === undefined ? options : { ...options, signature }),
    digest,
    etaMs,
    expiresMs,
    isIdDrawn: false,
    idempotencyKey: null,
    fingerprint: '',
    orderingKey,
    parksKey,
    redacted,
  };
}
