import { outlastError } from '../../errors/error.ts';
import { sleep } from '../../runtime/runtime.ts';
import { toText } from '../../task/json.ts';
import { safeKey } from '../../task/names.ts';
import type { ResultRecord, ResultStore } from '../../result/result-store.ts';
import { printableJson } from '../../telemetry/logger.ts';
import type { Context } from '../../context/context.ts';
import { readContext, withContext, type CommonOptions } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-codes.ts';
import type { AddCommand } from '../flags.ts';
import { JsonText } from '../output.ts';

/** `outlast result`: how a task ended. */
export const addResult: AddCommand = (program, output, finish) => {
  program
    .command('result')
    .description('show how a task ended: its result, its error, or where it is')
    .argument('<id>', 'the task')
    .option('--wait <seconds>', 'wait until it has ended')
    .action(async (id: string, options: CommonOptions & { readonly wait?: string }) => {
      safeKey(id, 'the id of a task');
      const waitMs = readSeconds(options.wait ?? '0') * 1_000;
      const { context } = await readContext(options);
      const record = await withContext(context, async () =>
        waitFor((await context.stores()).results, id, waitMs, context),
      );
      const { state, ending, result, error, why } = record;
      if (options.json)
        output.json({
          id,
          state,
          ending,
          result: result === null ? null : new JsonText(toText(result)),
          error,
          why,
        });
      else if (ending === 'done')
        output.line(result === null ? 'done' : printableJson(toText(result)));
      else output.line(`${ending ?? state}${error ? `: ${error.message}` : ''}`);
      finish(exitCode(record));
    });
};

const POLL_MS = 50;

async function waitFor(
  results: ResultStore,
  id: string,
  waitMs: number,
  { runtime }: Context,
): Promise<ResultRecord> {
  const endsAt = runtime.clock.monotonic() + waitMs;
  for (;;) {
    const record = await results.read(id);
    if (record.ending || runtime.clock.monotonic() >= endsAt) return record;
    await sleep(runtime.clock, POLL_MS);
  }
}

function exitCode(record: ResultRecord): ExitCode {
  if (record.state === 'unknown') return EXIT.notFound;
  switch (record.ending) {
    case 'done':
    case 'discarded':
      return EXIT.done;
    case 'dead':
    case 'cancelled':
    case 'expired':
      return EXIT.failed;
    case null:
      return EXIT.partly;
  }
}

function readSeconds(text: string): number {
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds >= 0) return seconds;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `--wait is ${JSON.stringify(text)}`,
    hint: 'Give a number of seconds.',
    fields: { option: '--wait' },
  });
}
