import { outlastError } from '../errors/error.ts';
import { type OptionRow, resolvedName } from '../options/option.ts';
import { TASK_TABLE } from '../options/task-table.ts';
import { checkTimeouts, inRange, refuseUnknown, schemaOf } from './check-option.ts';
import { admissionOf } from './contract-admission.ts';
import type { Contract } from './contract.generated.ts';
import { type Duration, durationMs } from './duration.ts';
import { idempotencyOf } from './idempotency.ts';
import { safeName } from './names.ts';
import { orderingOf } from './ordering.ts';
import { sloOf } from './slo.ts';

export type { Contract };

type Given = Readonly<Record<string, unknown>>;

/** Options that have members of their own. */
const GROUPS: Readonly<Record<string, (name: string, given: unknown) => unknown>> = {
  ordering: orderingOf,
  idempotent: idempotencyOf,
  admission: admissionOf,
  slo: sloOf,
};

/** Checks what was given to `task()` and fills in the defaults. */
export function resolveContract(name: string, given: object): Contract {
  refuseUnknown(Object.keys(given), Object.keys(TASK_TABLE), `task ${name}`);
  const options = given as Given;
  if (options['input'] && (options['args'] || options['kwargs'])) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `task ${name} has \`input\` beside \`args\` or \`kwargs\``,
      hint: 'Use `input`, or `args` and `kwargs` for a task written in Python.',
      fields: { options: ['input', 'args', 'kwargs'] },
    });
  }
  const read = Object.entries(TASK_TABLE).map(([key, row]) => [
    resolvedName(key, row),
    key in GROUPS ? GROUPS[key]?.(name, options[key]) : readOption(name, [key, row], options[key]),
  ]);
  // `contract.generated.ts` has the type of the result.
  return checkTimeouts(name, Object.freeze(Object.fromEntries(read)) as Contract);
}

/** In code without types, null has always meant "none" for these. */
const NULL_IS_NONE: ReadonlySet<string> = new Set(['integer', 'name', 'list']);

/** Reads one option by its row; null if nothing was given and there is no default. */
function readOption(
  name: string,
  [key, row]: readonly [string, OptionRow],
  given: unknown,
): unknown {
  const isNone = given === undefined || (given === null && NULL_IS_NONE.has(row.kind));
  const value = isNone ? row.default : given;
  const option = `${key} of ${name}`;
  if (row.kind === 'schema') return schemaOf(given, option);
  if (value === undefined) return null;
  switch (row.kind) {
    case 'integer':
      return inRange(value as number, option, row.min, row.max);
    case 'duration':
      return durationMs(value as Duration, option);
    case 'name':
      return safeName(value as string, 'queue');
    case 'choice':
      if (row.choices.includes(value as string)) return value;
      throw outlastError('ERR_OPTION_RANGE', {
        message: `\`${key}\` of ${name} is not what it must be`,
        hint: `Use ${row.choices.map(choice => `'${choice}'`).join(' or ')}.`,
        fields: { option: key },
      });
    default:
      return value;
  }
}
