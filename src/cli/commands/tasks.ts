import type { Command } from 'commander';
import type { Admin, TaskListOptions } from '../../admin/create-admin.ts';
import type { TaskInspection } from '../../admin/inspect-task.ts';
import { FILTER_TERMS, type FilterTerm } from '../../admin/task-filter.ts';
import { type AddCommand, readDuration, readWhole } from '../flags.ts';
import { type CommonOptions, addOutboxFlag, readContext, withAdmin } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { printLife } from '../history.ts';
import { JsonText, type Output, toJson } from '../output.ts';

/** `outlast tasks`: where tasks are, what they hold, why they do not run. */
export const addTasks: AddCommand = (program, output, finish) => {
  const parent = program
    .command('tasks')
    .description('tasks in every state: list, inspect, why, cancel, inflight');
  addList(parent, output);
  addInflight(parent, output);
  const missing = (id: string, isJson: boolean): void => {
    const message = `no task ${id}`;
    const hint = 'A message that no worker has begun is known to its broker only.';
    output.note(isJson ? toJson({ error: { code: 'ERR_NOT_FOUND', message, hint } }) : message);
    finish(EXIT.notFound);
  };
  addInspect(parent, output, missing);
  addWhy(parent, output, finish);
  addOutboxFlag(parent.command('cancel'))
    .description('cancel one that has not ended; a run is aborted')
    .argument('<id>', 'the task')
    .action(async (id: string, options: CommonOptions) => {
      const cancel = (admin: Admin) => admin.tasks.cancel(id);
      const status = await withAdmin(await readContext(options), cancel);
      if (status === 'terminal') finish(EXIT.conflict);
      if (options.json) return output.json({ id, status });
      output.line(status === 'ok' ? `${id} is cancelled` : `${id} has ended already`);
    });
};

interface PageOptions extends CommonOptions {
  readonly limit: string;
  readonly cursor?: string;
}

type ListOptions = PageOptions & Partial<Record<FilterTerm, string>>;

const AGES: readonly FilterTerm[] = ['olderThan', 'newerThan'];

const flagOf = (term: string): string =>
  `--${term.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`;

/** Flags and filter come from one table, as the API does. */
function readTerms(options: ListOptions): TaskListOptions {
  const terms = Object.keys(FILTER_TERMS) as FilterTerm[];
  const given = terms.flatMap(term => {
    const text = options[term];
    if (text === undefined) return [];
    return [[term, AGES.includes(term) ? readDuration(text, flagOf(term)) : text] as const];
  });
  return { ...Object.fromEntries(given), ...readPage(options) };
}

function readPage({ limit, cursor }: PageOptions): {
  readonly limit: number;
  readonly cursor?: string;
} {
  const page = { limit: readWhole(limit, '--limit', 1, 1_000) };
  return cursor === undefined ? page : { ...page, cursor };
}

function addPageFlags(command: Command): Command {
  return addOutboxFlag(command)
    .option('--limit <n>', 'how many', '50')
    .option('--cursor <text>', 'where the last page ended');
}

function addList(parent: Command, output: Output): void {
  const command = addPageFlags(parent.command('list')).description(
    'list tasks of outbox and ledger: what runs first, then what waits',
  );
  for (const [term, { value, sentence }] of Object.entries(FILTER_TERMS))
    command.option(`${flagOf(term)} <${value}>`, sentence);
  command.action(async (options: ListOptions) => {
    const terms = readTerms(options);
    const { items, next, examined } = await withAdmin(await readContext(options), admin =>
      admin.tasks.list(terms),
    );
    if (options.json) return output.json({ items, next, examined });
    if (items.length > 0)
      output.table(
        items.map(item => ({ ...item, error: (item.error ?? '').slice(0, ERROR_WIDTH) })),
        ['id', 'state', 'name', 'queue', 'createdAt', 'dueAt', 'failures', 'crashes', 'error'],
      );
    else output.note(`none of the ${examined} tasks that were looked at`);
    if (next !== null) output.note(`looked at ${examined}; more: --cursor '${next}'`);
  });
}

/** A list shows only the beginning of an error; `inspect` has the rest. */
const ERROR_WIDTH = 60;

function addInflight(parent: Command, output: Output): void {
  addPageFlags(parent.command('inflight'))
    .description('what runs now: worker, host, pid, for how long')
    .action(async (options: PageOptions) => {
      const page = readPage(options);
      const { items, next } = await withAdmin(await readContext(options), admin =>
        admin.tasks.inflight(page),
      );
      if (options.json) return output.json({ items, next });
      if (items.length === 0) return output.note('nothing runs');
      output.table(items, ['id', 'name', 'queue', 'worker', 'host', 'pid', 'forMs', 'epoch']);
      if (next !== null) output.note(`more: --cursor '${next}'`);
    });
}

function addInspect(
  parent: Command,
  output: Output,
  missing: (id: string, isJson: boolean) => void,
): void {
  addOutboxFlag(parent.command('inspect'))
    .description('show one with its input, its result and its history')
    .argument('<id>', 'the task')
    .action(async (id: string, options: CommonOptions) => {
      const inspect = (admin: Admin) => admin.tasks.inspect(id);
      const task = await withAdmin(await readContext(options), inspect);
      if (task === null) return missing(id, options.json ?? false);
      if (options.json) return output.json(jsonOf(task));
      print(task, output);
    });
}

/** The texts of the user's own values, unchanged. */
function jsonOf(task: TaskInspection): object {
  const { argsJson, kwargsJson, resultJson, checkpointJson, ...rest } = task;
  const text = (json: string | null): JsonText => new JsonText(json ?? 'null');
  const [args, kwargs] = [text(argsJson), text(kwargsJson)];
  return { ...rest, args, kwargs, result: text(resultJson), checkpoint: text(checkpointJson) };
}

function print(task: TaskInspection, output: Output): void {
  const { argsJson, kwargsJson, resultJson, checkpointJson, isRedacted, life } = task;
  const shown = [
    'id',
    'name',
    'queue',
    'state',
    'createdAt',
    'dueAt',
    'startedAt',
    'worker',
    'epoch',
    'failures',
    'crashes',
    'endedAt',
    'reason',
    'error',
    'tenant',
    'orderingKey',
  ] as const;
  for (const field of shown)
    if (task[field] !== null) output.line(`${field.padEnd(12)} ${String(task[field])}`);
  const mark = isRedacted ? '  (redacted)' : '';
  if (argsJson !== null) output.line(`args         ${argsJson}${mark}`);
  if (kwargsJson !== null) output.line(`kwargs       ${kwargsJson}${mark}`);
  if (argsJson === null) output.line('input        not kept any more');
  if (resultJson !== null) output.line(`result       ${resultJson}`);
  if (checkpointJson !== null) output.line(`checkpoint   ${checkpointJson}`);
  printLife(life, output);
}

function addWhy(parent: Command, output: Output, finish: (code: number) => void): void {
  addOutboxFlag(parent.command('why'))
    .description('say why one is not running, or how it went')
    .argument('<id>', 'the task')
    .action(async (id: string, options: CommonOptions) => {
      const why = (admin: Admin) => admin.tasks.why(id);
      const answer = await withAdmin(await readContext(options), why);
      if (answer.code === 'unknown') finish(EXIT.notFound);
      if (options.json) return output.json(answer);
      output.line(`${answer.code}: ${answer.message}`);
      if (answer.advice !== null) output.line(`  ${answer.advice}`);
    });
}
