import type { Command } from 'commander';
import type { RetryAllOptions, RetryStatus, RetrySummary } from '../../admin/dead-letters.ts';
import { addOutboxFlag, readContext, withAdmin, type CommonOptions } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { flagsConflict, readWhole } from '../flags.ts';
import type { Output } from '../output.ts';

interface Options extends CommonOptions {
  readonly all?: boolean;
  readonly taskName?: string;
  readonly limit?: string;
}

/** `dead-letters retry`: those that are named, or all that match. */
export function addRetry(parent: Command, output: Output, finish: (code: number) => void): void {
  addOutboxFlag(parent.command('retry'))
    .description('bring them back, each once')
    .argument('[id...]', 'the tasks')
    .option('--all', 'all there are, oldest first')
    .option('--task-name <glob>', 'with --all: only those of these tasks, with * and ?')
    .option('--limit <n>', 'with --all: at most so many (default: 1000)')
    .action(async (ids: readonly string[], options: Options) => {
      const many = readMany(ids, options);
      const command = await readContext(options);
      finish(
        await withAdmin(command, async ({ deadLetters }) => {
          if (many !== null) return printMany(await deadLetters.retryAll(many), options, output);
          const retry = async (id: string) => ({ id, status: await deadLetters.retry(id) });
          return printEach(await Promise.all(ids.map(retry)), options, output);
        }),
      );
    });
}

const MOST = 1_000_000;

/** Null: the tasks are named. */
function readMany(ids: readonly string[], options: Options): RetryAllOptions | null {
  const { all = false, taskName, limit } = options;
  if (!all && (taskName !== undefined || limit !== undefined)) {
    const hint = 'Add --all, or leave them out and name the tasks.';
    throw flagsConflict(['--all'], '--task-name and --limit choose among --all', hint);
  }
  if (all === ids.length > 0) {
    const message = all ? '--all and ids of tasks both say which' : 'nothing says which to retry';
    throw flagsConflict(['--all'], message, 'Give the ids of tasks, or --all.');
  }
  if (!all) return null;
  return {
    ...(taskName === undefined ? {} : { taskName }),
    ...(limit === undefined ? {} : { limit: readWhole(limit, '--limit', 1, MOST) }),
  };
}

function printMany(summary: RetrySummary, options: Options, output: Output): number {
  const { retried, skipped } = summary;
  const left = skipped.expired + skipped.conflict + skipped.incomplete;
  if (options.json) output.json(summary);
  else {
    output.line(`${retried} wait again`);
    if (skipped.expired > 0) output.line(`${skipped.expired} skipped: their time is over`);
    if (skipped.conflict > 0) output.line(`${skipped.conflict} skipped: not dead any more`);
    if (skipped.incomplete > 0)
      output.line(`${skipped.incomplete} skipped: they were too large, and were not kept whole`);
  }
  if (left === 0) return EXIT.done;
  return retried > 0 ? EXIT.partly : EXIT.conflict;
}

const WORDS: Readonly<Record<RetryStatus, string>> = {
  ok: 'waits again',
  absent: 'is not known',
  conflict: 'is not dead (any more)',
  expired: 'is not brought back: its time is over',
  incomplete:
    'cannot be brought back: it was too large, and only its first bytes were kept; have it sent again',
};

function printEach(
  items: readonly { readonly id: string; readonly status: RetryStatus }[],
  options: Options,
  output: Output,
): number {
  if (options.json) output.json({ items });
  else for (const { id, status } of items) output.line(`${id} ${WORDS[status]}`);
  const done = items.filter(({ status }) => status === 'ok').length;
  if (done === items.length) return EXIT.done;
  if (done > 0) return EXIT.partly;
  return items.every(({ status }) => status === 'absent') ? EXIT.notFound : EXIT.conflict;
}
