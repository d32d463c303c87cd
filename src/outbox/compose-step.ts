import { outlastError } from '../errors/error.ts';
import { SEND_TABLE } from '../options/send-table.ts';
import type { Contract } from '../task/contract.ts';
import { isTask, type After, type SendOptions, type Step, type Task } from '../task/define-task.ts';
import { derivedId } from '../task/digest.ts';
import { durationMs } from '../task/duration.ts';
import { check, encodeInput, invalidInput, type WireCall } from '../task/input.ts';
import type { ChordReporting } from '../task/chord-link.ts';
import { encodeJson } from '../task/json.ts';
import { membersOf, objectOf } from '../task/json-slices.ts';
import { safeName } from '../task/names.ts';
import { encodeSignature } from '../task/signature.ts';
import { OWN_HEADERS } from '../wire/headers.ts';
import { formatInstant } from '../wire/iso-time.ts';
import {
  bornExpired,
  celeryOptions,
  checkHeaders,
  checkOptions,
  conflict,
  instantMs,
  priorityOf,
} from './compose-options.ts';

/** A step that follows a task: checked, and without an id unless the caller gave one. */
export interface StepDraft {
  readonly task: Task;
  readonly id: string | null;
  readonly call: WireCall;
  /** True: it takes nothing from the task before it. */
  readonly isImmutable: boolean;
  /** Celery's options as JSON texts, all but ids and further steps. */
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly links: readonly StepDraft[];
  readonly errorLinks: readonly StepDraft[];
}

export async function draftSteps(
  steps: Step | readonly Step[] | undefined,
): Promise<readonly StepDraft[]> {
  if (steps === undefined) return [];
  const list = Array.isArray(steps) ? (steps as readonly Step[]) : [steps as Step];
  return await Promise.all(list.map(draftStep));
}

export async function draftStep(step: Step): Promise<StepDraft> {
  const task = isTask(step) ? step : (step as Partial<After> | null)?.task;
  if (!isTask(task)) throw notATask();
  const options = isTask(step) ? {} : step.options;
  checkOptions(options);
  refuseOutboxOptions(task, options);
  return {
    task,
    id: options.id === undefined ? null : safeName(options.id, 'task id'),
    ...(await draftCall(task, step)),
    options: signatureOptions(task, options),
    links: await draftSteps(options.link),
    errorLinks: await draftSteps(options.linkError),
  };
}

/** The compiler refuses most of these; untyped code gets the error here. */
export function notATask(): Error {
  return outlastError('ERR_TASK_UNKNOWN', {
    message: 'what was given is not a task',
    hint: "The order is send(tx, task, input), and push(task, input). Declare a task with task('name', { input }). Workflows are sent with `send` or `sendMany`, and stand in no chain or link.",
    fields: { task: '' },
  });
}

const FOR_OUTBOX = Object.entries(SEND_TABLE)
  .filter(([, row]) => row.isForOutbox)
  .map(([key]) => key as keyof SendOptions);

/** A worker sends a follow-up, so it never sees the outbox; its time counts from then. */
function refuseOutboxOptions(task: Task, options: SendOptions): void {
  const option = FOR_OUTBOX.find(key => options[key] !== undefined);
  if (option !== undefined)
    throw conflict(
      [option],
      `\`${option}\` is for the task that is sent, not for ${task.name}, which follows`,
    );
  if (task.contract.ordering)
    throw conflict(
      ['ordering'],
      `${task.name} has an ordering, which a task that follows another cannot keep`,
    );
}

type DraftCall = Pick<StepDraft, 'call' | 'isImmutable'>;

const NO_ARGUMENTS: WireCall = Object.freeze({ args: '[]', kwargs: '{}' });

async function draftCall(task: Task, step: Step): Promise<DraftCall> {
  const { name, contract } = task;
  if (!isTask(step) && 'input' in step)
    return { call: await encodeInput(name, contract, step.input), isImmutable: true };
  // A task without input may follow any task.
  if (!contract.input && !contract.args && !contract.kwargs)
    return { call: NO_ARGUMENTS, isImmutable: true };
  const rest = isTask(step) ? undefined : step.rest;
  return { call: await encodeRest(name, contract, rest), isImmutable: false };
}

/** Encodes what is given beside the first argument, which is known only when the previous task is done. */
async function encodeRest(name: string, contract: Contract, rest: unknown): Promise<WireCall> {
  const refuse = (message: string): Error => invalidInput(name, [{ path: '', message }]);
  if (contract.args) {
    const { args = [], kwargs = {} } = (rest ?? {}) as { args?: unknown; kwargs?: unknown };
    if (!Array.isArray(args)) throw refuse('`args` is not an array');
    if (contract.kwargs) await check(name, contract.kwargs, kwargs);
    return { args: encodeJson(args), kwargs: encodeJson(kwargs) };
  }
  if (contract.kwargs) throw refuse('it has no positional argument that a result could become');
  if (rest === undefined) return NO_ARGUMENTS;
  const [first] = contract.params ?? [];
  if (first === undefined) throw refuse('without `params` the result before is the whole input');
  if (typeof rest !== 'object' || rest === null || Array.isArray(rest))
    throw refuse('what is given to `after` is not an object');
  if (first in rest) throw refuse(`\`${first}\` is the result before, and is given here too`);
  return { args: '[]', kwargs: encodeJson(rest) };
}

function signatureOptions(task: Task, options: SendOptions): StepDraft['options'] {
  const { contract } = task;
  const priority = priorityOf(task, options);
  const celery = celeryOptions(options.celery);
  const text = (value: string | undefined): string | undefined =>
    value === undefined ? undefined : JSON.stringify(value);
  return {
    queue: JSON.stringify(safeName(options.queue ?? contract.queue, 'queue')),
    priority: priority === 0 ? undefined : String(priority),
    countdown:
      options.countdown === undefined
        ? undefined
        : seconds(durationMs(options.countdown, 'countdown')),
    eta: options.eta === undefined ? undefined : text(formatInstant(instantMs(options.eta, 'eta'))),
    expires: expiresText(task, options),
    time_limit: contract.timeoutMs === null ? undefined : seconds(contract.timeoutMs),
    soft_time_limit: contract.softTimeoutMs === null ? undefined : seconds(contract.softTimeoutMs),
    ignore_result: options.keepResult === false ? 'true' : undefined,
    exchange: text(celery.exchange),
    routing_key: text(celery.routingKey),
    reply_to: text(celery.replyTo),
    correlation_id: text(celery.correlationId),
    shadow: text(celery.shadow),
    headers: encodeJson({
      ...checkHeaders(options.headers ?? {}),
      [OWN_HEADERS.schema]: contract.version,
    }),
  };
}

/** A duration counts from when the task is sent, as in Celery. */
function expiresText(task: Task, { expires }: SendOptions): string | undefined {
  if (expires instanceof Date) return JSON.stringify(formatInstant(instantMs(expires, 'expires')));
  if (expires !== undefined) {
    const lengthMs = durationMs(expires, 'expires');
    if (lengthMs === 0) throw bornExpired();
    return seconds(lengthMs);
  }
  const { expiresMs } = task.contract;
  return expiresMs === null ? undefined : seconds(expiresMs);
}

const seconds = (ms: number): string => String(ms / 1_000);

export interface SignatureStyle {
  /** Without ids two sends of the same call are the same text. */
  readonly hasIds: boolean;
  /** The parts of chords report their endings to us; null: Celery counts them. */
  readonly chordTelling: ChordReporting | null;
  /** Headers of every step, beside its own: a worker in another language hands on nothing else. Left out: none. */
  readonly context?: Readonly<Record<string, string>> | undefined;
}

export interface SignatureContext {
  /** Null: the sender of the follow-up draws one, once per death of the task it follows. */
  readonly id: string | null;
  readonly options?: Readonly<Record<string, string | undefined>>;
  readonly chordSize?: number;
  /** Links from its position in the workflow, after its own. */
  readonly links?: readonly string[];
  readonly errorLinks?: readonly string[];
}

export function signatureOf(
  draft: StepDraft,
  { id, options, chordSize, ...context }: SignatureContext,
  style: SignatureStyle,
): string {
  const { task, call, isImmutable } = draft;
  const links = [...linkSignatures(draft.links, id, style), ...(context.links ?? [])];
  const errorLinks = [...errorSignatures(draft.errorLinks, style), ...(context.errorLinks ?? [])];
  return encodeSignature({
    task: task.name,
    ...call,
    options: {
      ...draft.options,
      ...headersOf(draft, style),
      task_id: id === null || !style.hasIds ? undefined : JSON.stringify(id),
      link: links.length === 0 ? undefined : `[${links.join(',')}]`,
      link_error: errorLinks.length === 0 ? undefined : `[${errorLinks.join(',')}]`,
      ...options,
    },
    isImmutable,
    ...(chordSize === undefined ? {} : { chordSize }),
  });
}

function headersOf(
  { options }: StepDraft,
  { context }: SignatureStyle,
): { readonly headers?: string | undefined } {
  if (context === undefined) return {};
  const own = Object.fromEntries(membersOf(options['headers'] ?? '{}'));
  const given = Object.entries(context).map(([name, text]): [string, string] => [
    name,
    JSON.stringify(text),
  ]);
  return { headers: objectOf({ ...Object.fromEntries(given), ...own }) };
}

/** Their ids derive from the task's, so that sending them again sends copies. */
export function linkSignatures(
  links: readonly StepDraft[],
  taskId: string | null,
  style: SignatureStyle,
): readonly string[] {
  return links.map((draft, index) => {
    const derived = taskId === null ? null : derivedId(taskId, `link:${index}`);
    return signatureOf(draft, { id: draft.id ?? derived }, style);
  });
}

export function errorSignatures(
  errorLinks: readonly StepDraft[],
  style: SignatureStyle,
): readonly string[] {
  return errorLinks.map(draft => signatureOf(draft, { id: draft.id }, style));
}
