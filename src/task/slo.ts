import { outlastError } from '../errors/error.ts';
import { rowOf } from '../options/option.ts';
import { TASK_TABLE } from '../options/task-table.ts';
import { refuseUnknown } from './check-option.ts';
import { durationMs, type Duration } from './duration.ts';

/** What a task promises; at least one of the two is set. */
export interface Slo {
  /** The share of tasks that end done. */
  readonly success: number | null;
  readonly latency: { readonly withinMs: number; readonly target: number } | null;
}

const { members } = rowOf(TASK_TABLE, 'slo', 'group');
const { members: latencyMembers } = rowOf(members, 'latency', 'group');

/** Checks `slo` of a task's options. */
export function sloOf(name: string, given: unknown): Slo | null {
  if (given === undefined) return null;
  const slo = recordOf(name, 'slo', given);
  refuseUnknown(Object.keys(slo), Object.keys(members), `\`slo\` of ${name}`);
  const { success, latency } = slo;
  if (success === undefined && latency === undefined)
    throw wrong(name, 'slo', 'promises nothing', 'Give it a `success`, a `latency`, or both.');
  return Object.freeze({
    success: success === undefined ? null : shareOf(name, 'slo.success', success),
    latency: latency === undefined ? null : latencyOf(name, latency),
  });
}

function latencyOf(name: string, given: unknown): Slo['latency'] {
  const latency = recordOf(name, 'slo.latency', given);
  refuseUnknown(Object.keys(latency), Object.keys(latencyMembers), `\`slo.latency\` of ${name}`);
  const withinMs = durationMs(latency['within'] as Duration, `slo.latency.within of ${name}`);
  if (withinMs < 1) throw wrong(name, 'slo.latency.within', 'is no time at all', "Use '5s'.");
  const target = shareOf(name, 'slo.latency.target', latency['target']);
  return Object.freeze({ withinMs: Math.round(withinMs), target });
}

/** A promise of everything leaves no budget to burn, and one of nothing can never be broken. */
function shareOf(name: string, option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < 1) return value;
  throw wrong(name, option, `is ${String(value)}`, 'Use a share between 0 and 1, such as 0.999.');
}

function recordOf(name: string, option: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw wrong(name, option, `is ${String(value)}`, 'Write an object: { success: 0.999 }.');
}

function wrong(name: string, option: string, problem: string, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` of ${name} ${problem}`,
    hint,
    fields: { option },
  });
}
