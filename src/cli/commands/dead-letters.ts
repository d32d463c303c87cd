import { outlastError } from '../../errors/error.ts';
import type { Admin } from '../../admin/create-admin.ts';
import type { DeadLetterDetails } from '../../admin/read-model.ts';
import { addOutboxFlag, readContext, withAdmin, type CommonOptions } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import type { AddCommand } from '../command.ts';
import { toJson, type Output } from '../output.ts';

/** `outlast dead-letters`: what could not be helped, with bytes, reason and history. */
export const addDeadLetters: AddCommand = (program, output, finish) => {
  const parent = program.command('dead-letters').description('tasks that could not be helped');
  const run = async <T>(options: CommonOptions, fn: (admin: Admin) => Promise<T>): Promise<T> => {
    return await withAdmin(await readContext(options, output), fn);
  };
  addOutboxFlag(parent.command('list'))
    .description('list them, newest first')
    .option('--limit <n>', 'how many', '50')
    .option('--cursor <text>', 'where the last page ended')
    .action(
      async (options: CommonOptions & { readonly limit: string; readonly cursor?: string }) => {
        const limit = readLimit(options.limit);
        const page = await run(options, admin =>
          admin.deadLetters.list({
            limit,
            ...(options.cursor === undefined ? {} : { cursor: options.cursor }),
          }),
        );
        if (options.json) return output.json(page);
        if (page.items.length === 0) return output.note('no dead letters');
        output.table(
          page.items.map(item => ({ ...item, error: item.error.slice(0, ERROR_WIDTH) })),
          ['id', 'name', 'queue', 'where', 'reason', 'deadAt', 'error'],
        );
        if (page.next !== null) output.note(`more: --cursor '${page.next}'`);
      },
    );
  addOutboxFlag(parent.command('show'))
    .description('show one with its payload and history')
    .argument('<id>', 'the task')
    .action(async (id: string, options: CommonOptions) => {
      const letter = await run(options, admin => admin.deadLetters.show(id));
      if (letter === null) return missing(id, options.json ?? false, output, finish);
      if (options.json) return output.json({ ...letter, bodyText: payloadText(letter) });
      showLetter(letter, output);
    });
  addOutboxFlag(parent.command('retry'))
    .description('bring one back, once')
    .argument('<id...>', 'the tasks')
    .action(async (ids: readonly string[], options: CommonOptions) => {
      const statuses = await run(
        options,
        async admin =>
          await Promise.all(
            ids.map(async id => ({ id, status: await admin.deadLetters.retry(id) })),
          ),
      );
      if (options.json) output.json({ items: statuses });
      else for (const { id, status } of statuses) output.line(`${id} ${RETRY_WORDS[status]}`);
      finish(retryCode(statuses.map(({ status }) => status)));
    });
};

/** Of an error a list shows the beginning; `show` has the rest. */
const ERROR_WIDTH = 80;

const RETRY_WORDS = {
  ok: 'waits again',
  absent: 'is not known',
  conflict: 'is not dead (any more)',
  expired: 'has expired, so it could not run',
} as const;

function retryCode(statuses: readonly (keyof typeof RETRY_WORDS)[]): number {
  const done = statuses.filter(status => status === 'ok').length;
  if (done === statuses.length) return EXIT.done;
  if (done > 0) return EXIT.partly;
  return statuses.every(status => status === 'absent') ? EXIT.notFound : EXIT.conflict;
}

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

function showLetter(letter: DeadLetterDetails, output: Output): void {
  const { id, name, queue, where, reason, error, deadAt, version } = letter;
  output.line(
    [
      `id       ${id}`,
      `name     ${name}`,
      `queue    ${queue}`,
      `where    ${where}`,
      `reason   ${reason}`,
      `error    ${error}`,
      `dead at  ${deadAt}`,
      `version  ${version}`,
    ].join('\n'),
  );
  output.line(`payload  ${payloadText(letter)}`);
  for (const { at, step, epoch, error: failure } of letter.history)
    output.line(
      `  ${at ?? ''} ${step} epoch ${epoch}${failure ? ` ${failure.type}: ${failure.message}` : ''}`,
    );
}

function readLimit(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= 1_000) return limit;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `--limit is ${JSON.stringify(text)}`,
    hint: 'Give a whole number from 1 to 1000.',
    fields: { option: '--limit' },
  });
}
