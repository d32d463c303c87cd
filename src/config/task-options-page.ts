import { HANDLER_TABLE } from '../options/handler-table.ts';
import type { OptionRow, OptionTable } from '../options/option.ts';
import { SEND_TABLE } from '../options/send-table.ts';
import { ADMISSION_RULE_TABLE, TASK_TABLE } from '../options/task-table.ts';
import { code, defaultCell, markdownTable, meaningOf } from './option-markdown.ts';
import { flagOf, rangeOf, textUnit } from './option-table.ts';

const INTRO = `# Options of tasks, handlers and sends

<!-- Written by \`npm run build\` from src/options. -->

Durations are text with a unit: \`'250ms'\`, \`'30s'\`, \`'5m'\`, \`'2h'\`, \`'7d'\`. An option that is not known is
\`ERR_UNKNOWN_OPTION\`, and a value that is out of range \`ERR_OPTION_RANGE\` or \`ERR_OPTION_UNIT\`, where it is written.
Options of relays, workers and resurrectors are in the [configuration](configuration.md).
`;

/** Options, with the members of groups flattened under their full names. */
function flattened(table: OptionTable, prefix = ''): readonly (readonly [string, OptionRow])[] {
  return Object.entries(table).flatMap(([key, row]) => {
    const own = [[`${prefix}${key}`, row] as const];
    if (row.kind !== 'group') return own;
    const shared = row.extends === 'AdmissionRuleOptions' ? ADMISSION_RULE_TABLE : {};
    return [...own, ...flattened({ ...shared, ...row.members }, `${prefix}${key}.`)];
  });
}

const valuesOf = (row: OptionRow): string =>
  row.kind === 'value' ? code(rangeOf(row)) : rangeOf(row);

const isSure = (row: OptionRow): boolean => row.isRequired ?? false;

function tableOf(table: OptionTable): string {
  return markdownTable(
    ['option', 'default', 'values', 'meaning'],
    flattened(table).map(([key, row]) => [
      code(key),
      isSure(row) ? 'must be given' : defaultCell(row),
      valuesOf(row),
      meaningOf(row),
    ]),
  );
}

/** The text of `docs/reference/task-options.md`. */
export function taskOptionsPage(): string {
  return [
    INTRO,
    `## \`task(name, options)\`\n\n${tableOf(TASK_TABLE)}\n`,
    `## \`outlast.handler(task, options)\`\n\nSee [handlers](handlers.md).\n\n${tableOf(HANDLER_TABLE)}\n`,
    `## \`send\`, \`push\`, \`.with\` and \`.after\`\n\n${tableOf(SEND_TABLE)}\n`,
  ].join('\n');
}

/** The flags of `outlast send` that are options of a send, for `docs/reference/cli.md`. */
export function sendFlagsTable(): string {
  const rows = Object.entries(SEND_TABLE).filter(([, row]) => row.flag !== undefined);
  return markdownTable(
    ['flag', 'meaning'],
    rows.map(([key, row]) => [
      code(`${flagOf(key)} <${row.flag}>`),
      `${row.sentence}${textUnit(row)}`,
    ]),
  );
}
