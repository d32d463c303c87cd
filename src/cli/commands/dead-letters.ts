import type { Command } from 'commander';
import type { Admin } from '../../admin/create-admin.ts';
import type { ShownLetter } from '../../admin/show-letter.ts';
import type { DeadLetterDetails } from '../../ledger/dead-letter.ts';
import { type CommonOptions, addOutboxFlag, readContext, withAdmin } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { type AddCommand, readWhole } from '../flags.ts';
import { printHistory } from '../history.ts';
import { JsonText, type Output, toJson } from '../output.ts';
import { addPurge } from './dead-letters-purge.ts';
import { addRetry } from './dead-letters-retry.ts';

/** `outlast dead-letters`: tasks that kept failing, with payload, reason and history. */
export const addDeadLetters: AddCommand = (program, output, finish) => {
  const parent = program.command('dead-letters').description('tasks that could not be helped');
  addList(parent, output);
  addOutboxFlag(parent.command('show'))
    .description('show one with its payload and history')
    .argument('<id>', 'the task')
    .action(async (id: string, options: CommonOptions) => {
      const show = (admin: Admin) => admin.deadLetters.show(id);
      const letter = await withAdmin(await readContext(options), show);
      if (letter === null) return missing(id, options.json ?? false, output, finish);
      const { checkpointJson, ...shown } = letter;
      const checkpoint = new JsonText(checkpointJson ?? 'null');
      if (options.json) return output.json({ ...shown, checkpoint, bodyText: payloadText(letter) });
      printLetter(letter, output);
    });
  addRetry(parent, output, finish);
  addPurge(parent, output);
};

interface ListOptions extends CommonOptions {
  readonly limit: string;
  readonly cursor?: string;
  readonly taskName?: string;
}

function addList(parent: Command, output: Output): void {
  addOutboxFlag(parent.command('list'))
    .description('list them, newest first')
    .option('--limit <n>', 'how many', '50')
    .option('--cursor <text>', 'where the last page ended')
    .option('--task-name <glob>', 'only those of these tasks, with * and ?')
    .action(async (options: ListOptions) => {
      const { cursor, taskName } = options;
      const page = {
        limit: readWhole(options.limit, '--limit', 1, 1_000),
        ...(cursor === undefined ? {} : { cursor }),
        ...(taskName === undefined ? {} : { taskName }),
      };
      const list = (admin: Admin) => admin.deadLetters.list(page);
      const { items, next } = await withAdmin(await readContext(options), list);
      if (options.json) return output.json({ items, next });
      if (items.length === 0) return output.note('no dead letters');
      output.table(
        items.map(item => ({ ...item, error: item.error.slice(0, ERROR_WIDTH) })),
        ['id', 'name', 'queue', 'where', 'reason', 'deadAt', 'error'],
      );
      if (next !== null) output.note(`more: --cursor '${next}'`);
    });
}

/** A list shows only the beginning of an error; `show` has the rest. */
const ERROR_WIDTH = 80;

function missing(
  id: string,
  isJson: boolean,
  output: Output,
  finish: (code: number) => void,
): void {
  const message = `no dead letter ${id}`;
  const error = { code: 'ERR_NOT_FOUND', message, hint: 'List them: outlast dead-letters list' };
  output.note(isJson ? toJson({ error }) : message);
  finish(EXIT.notFound);
}

/** The body as text; bytes that are not text show as replacement characters, and in full as base64 with --json. */
function payloadText(letter: DeadLetterDetails): string {
  return Buffer.from(letter.body).toString('utf8');
}

function printLetter(letter: ShownLetter, output: Output): void {
  const { id, name, queue, where, reason, error, deadAt, version, createdAt, expiresAt } = letter;
  const { checkpointJson } = letter;
  output.lines([
    `id       ${id}`,
    `name     ${name}`,
    `queue    ${queue}`,
    `where    ${where}`,
    `reason   ${reason}`,
    `error    ${error}`,
    `sent at  ${createdAt}`,
    ...(expiresAt === null ? [] : [`expires  ${expiresAt}`]),
    `dead at  ${deadAt}`,
    `version  ${version}`,
  ]);
  output.line(`payload  ${payloadText(letter)}${letter.isRedacted ? '  (redacted)' : ''}`);
  if (checkpointJson !== null) output.line(`checkpoint ${checkpointJson}`);
  printHistory(letter.history, output);
  const stack = letter.history.findLast(entry => entry.error?.traceback)?.error?.traceback ?? '';
  // Indented, so that none of its lines looks like a field of the letter.
  if (stack !== '') output.lines(['stack', ...stack.split('\n').map(line => `  ${line}`)]);
}
