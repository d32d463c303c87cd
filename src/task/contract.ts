import { outlastError } from '../errors/error.ts';
import { readAdmissionRule, type AdmissionRule } from './admission-rule.ts';
import { checkTimeouts } from './check-timeouts.ts';
import { durationMs, type Duration } from './duration.ts';
import { idempotencyOf, type Idempotency } from './idempotency.ts';
import { safeName } from './names.ts';
import type { StandardSchema } from './standard-schema.ts';

/** What a contract says, checked and with defaults. */
export interface Contract {
  readonly input: StandardSchema | null;
  readonly args: StandardSchema | null;
  readonly kwargs: StandardSchema | null;
  readonly result: StandardSchema | null;
  readonly params: readonly string[] | null;
  readonly version: number;
  readonly queue: string;
  readonly priority: number;
  readonly timeoutMs: number | null;
  readonly softTimeoutMs: number | null;
  readonly expiresMs: number | null;
  readonly ordering: Ordering | null;
  readonly idempotent: Idempotency | null;
  readonly admission: ContractAdmission | null;
  readonly durability: Durability;
}

/** Until when the outbox keeps a task: until the broker has it, or until it is over. */
export type Durability = 'broker' | 'end-to-end';

/** What a task itself says about how much of it may come in and run. */
export interface ContractAdmission extends AdmissionRule {
  /** Null: all of this task are one. */
  readonly key: ((input: unknown) => string) | null;
  /** What `push` does over the rate. */
  readonly onReject: 'throw' | 'defer';
}

export interface Ordering {
  readonly key: (input: unknown) => string;
  /** True: a dead row holds back those behind it. */
  readonly parks: boolean;
}

/** The options of `task()`, before anything is known about them. */
interface GivenOptions {
  readonly input?: unknown;
  readonly result?: unknown;
  readonly args?: unknown;
  readonly kwargs?: unknown;
  readonly params?: readonly string[];
  readonly version?: number;
  readonly queue?: string;
  readonly priority?: number;
  readonly timeout?: Duration;
  readonly softTimeout?: Duration;
  readonly expires?: Duration;
  readonly ordering?: { readonly key?: unknown; readonly whenDead?: unknown };
  readonly idempotent?: unknown;
  readonly admission?: { readonly key?: unknown; readonly onReject?: unknown };
  readonly durability?: unknown;
}

const KNOWN_OPTIONS: readonly (keyof GivenOptions)[] = [
  'input',
  'result',
  'args',
  'kwargs',
  'params',
  'version',
  'queue',
  'priority',
  'timeout',
  'softTimeout',
  'expires',
  'ordering',
  'idempotent',
  'admission',
  'durability',
];

/** Checks what was given to `task()` and fills in the defaults. */
export function resolveContract(name: string, given: object): Contract {
  refuseUnknown(Object.keys(given), KNOWN_OPTIONS, `task ${name}`);
  const options = given as GivenOptions;
  if (options.input && (options.args || options.kwargs)) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `task ${name} has \`input\` beside \`args\` or \`kwargs\``,
      hint: 'Use `input`, or `args` and `kwargs` for a task written in Python.',
      fields: { options: ['input', 'args', 'kwargs'] },
    });
  }
  const lengthMs = (option: 'timeout' | 'softTimeout' | 'expires'): number | null => {
    const duration = options[option];
    return duration === undefined ? null : durationMs(duration, `${option} of ${name}`);
  };
  const contract = Object.freeze({
    input: schemaOf(options.input, `input of ${name}`),
    args: schemaOf(options.args, `args of ${name}`),
    kwargs: schemaOf(options.kwargs, `kwargs of ${name}`),
    result: schemaOf(options.result, `result of ${name}`),
    params: options.params ?? null,
    version: inRange(options.version ?? 1, `version of ${name}`, 1, 32_767),
    queue: safeName(options.queue ?? 'default', 'queue'),
    priority: inRange(options.priority ?? 0, `priority of ${name}`, 0, 9),
    timeoutMs: lengthMs('timeout'),
    softTimeoutMs: lengthMs('softTimeout'),
    expiresMs: lengthMs('expires'),
    ordering: orderingOf(name, options.ordering),
    idempotent: idempotencyOf(name, options.idempotent),
    admission: admissionOf(name, options.admission),
    durability: durabilityOf(name, options.durability),
  });
  return checkTimeouts(name, contract);
}

/** Throws for the first key that is not among the known ones; `whose` begins the sentence. */
export function refuseUnknown(
  keys: readonly string[],
  known: readonly string[],
  whose: string,
): void {
  const unknown = keys.find(key => !known.includes(key));
  if (unknown === undefined) return;
  throw outlastError('ERR_UNKNOWN_OPTION', {
    message: `${whose} has an unknown option \`${unknown}\``,
    hint: `Known options are ${known.join(', ')}.`,
    fields: { option: unknown, nearest: null },
  });
}

/** Checked here: a result that nothing can check would be found out after the handler has had its effect. */
export function schemaOf(given: unknown, option: string): StandardSchema | null {
  if (given === undefined) return null;
  const { '~standard': standard } = Object(given) as Partial<StandardSchema>;
  if (typeof standard?.validate === 'function') return given as StandardSchema;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is no schema`,
    hint: 'Give a Standard Schema, as zod, valibot and arktype make them, or unchecked<T>().',
    fields: { option },
  });
}

function orderingOf(name: string, given: GivenOptions['ordering']): Ordering | null {
  if (given === undefined) return null;
  refuseUnknown(Object.keys(given), ['key', 'whenDead'], `\`ordering\` of ${name}`);
  const { key, whenDead = 'park' } = given;
  if (typeof key !== 'function')
    throw orderingError(name, 'key', 'Give a function of the input: input => input.orderId.');
  if (whenDead !== 'park' && whenDead !== 'go-on')
    throw orderingError(name, 'whenDead', "Use 'park' or 'go-on'.");
  return Object.freeze({ key: key as Ordering['key'], parks: whenDead === 'park' });
}

function durabilityOf(name: string, given: unknown = 'broker'): Durability {
  if (given === 'broker' || given === 'end-to-end') return given;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`durability\` of ${name} is not what it must be`,
    hint: "Use 'broker' or 'end-to-end'.",
    fields: { option: 'durability' },
  });
}

function admissionOf(name: string, given: GivenOptions['admission']): ContractAdmission | null {
  if (given === undefined) return null;
  const option = `admission of ${name}`;
  const refuse = (keys: readonly string[], known: readonly string[]): void =>
    refuseUnknown(keys, known, `\`admission\` of ${name}`);
  const rule = readAdmissionRule(given, option, refuse, ['key', 'onReject']);
  const { key = null, onReject = 'throw' } = given;
  const wrong = (member: string, hint: string): Error =>
    outlastError('ERR_OPTION_RANGE', {
      message: `\`admission.${member}\` of ${name} is not what it must be`,
      hint,
      fields: { option: `admission.${member}` },
    });
  if (key !== null && typeof key !== 'function')
    throw wrong('key', 'Give a function of the input: input => input.tenant, or leave it out.');
  if (onReject !== 'throw' && onReject !== 'defer')
    throw wrong('onReject', "Use 'throw' or 'defer'.");
  return Object.freeze({ ...rule, key: key as ContractAdmission['key'], onReject });
}

function orderingError(name: string, option: string, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`ordering.${option}\` of ${name} is not what it must be`,
    hint,
    fields: { option: `ordering.${option}` },
  });
}

export function inRange(value: number, option: string, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is ${String(value)}`,
    hint: `Use a whole number from ${min} to ${max}.`,
    fields: { option },
  });
}
