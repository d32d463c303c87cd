import { outlastError } from '../errors/error.ts';
import { rowOf } from '../options/option.ts';
import { TASK_TABLE } from '../options/task-table.ts';
import { readAdmissionRule, type AdmissionRule } from './admission-rule.ts';
import { refuseUnknown } from './check-option.ts';

/** A task's own limits on how much of it may come in and run. */
export interface ContractAdmission extends AdmissionRule {
  /** Null: the whole task has one key. */
  readonly key: ((input: unknown) => string) | null;
  /** What `push` does above the rate. */
  readonly onReject: 'throw' | 'defer';
  /** What `push` does while the store of the limits is away. */
  readonly onOutage: 'throw' | 'admit';
}

const { members } = rowOf(TASK_TABLE, 'admission', 'group');
const ON_REJECT = rowOf(members, 'onReject', 'choice');
const ON_OUTAGE = rowOf(members, 'onOutage', 'choice');

/** Checks `admission` of a task's options. */
export function admissionOf(name: string, given: unknown): ContractAdmission | null {
  if (given === undefined) return null;
  const refuse = (keys: readonly string[], known: readonly string[]): void =>
    refuseUnknown(keys, known, `\`admission\` of ${name}`);
  const rule = readAdmissionRule(given, `admission of ${name}`, refuse, Object.keys(members));
  const {
    key = null,
    onReject = ON_REJECT.default,
    onOutage = ON_OUTAGE.default,
  } = given as {
    readonly key?: unknown;
    readonly onReject?: unknown;
    readonly onOutage?: unknown;
  };
  const wrong = (member: string, hint: string): Error =>
    outlastError('ERR_OPTION_RANGE', {
      message: `\`admission.${member}\` of ${name} is not what it must be`,
      hint,
      fields: { option: `admission.${member}` },
    });
  if (key !== null && typeof key !== 'function')
    throw wrong('key', 'Give a function of the input: input => input.tenant, or leave it out.');
  if (!ON_REJECT.choices.includes(onReject as string))
    throw wrong('onReject', "Use 'throw' or 'defer'.");
  if (!ON_OUTAGE.choices.includes(onOutage as string))
    throw wrong('onOutage', "Use 'throw' or 'admit'.");
  return Object.freeze({
    ...rule,
    key: key as ContractAdmission['key'],
    onReject: onReject as ContractAdmission['onReject'],
    onOutage: onOutage as ContractAdmission['onOutage'],
  });
}
