import type { Command } from 'commander';
import type { KeyDetails, ResetStatus } from '../../admin/idempotency-keys.ts';
import { outlastError } from '../../errors/error.ts';
import { callKey } from '../../task/call-key.ts';
import { decodeBody, encodeInput, inputFromCall } from '../../task/input.ts';
import { decodeJson, toBytes, toText } from '../../task/json.ts';
import { printableJson } from '../../telemetry/logger.ts';
import { type AddCommand, findContract, flagsConflict } from '../flags.ts';
import { type CommandContext, type CommonOptions, readContext, withAdmin } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-codes.ts';
import { JsonText, type Output, toJson } from '../output.ts';

interface Options extends CommonOptions {
  readonly task?: string;
  readonly input?: string;
  readonly force?: boolean;
}

/** `outlast idempotency`: which task holds a key, and its result. */
export const addIdempotency: AddCommand = (program, output, finish) => {
  const parent = program.command('idempotency').description('idempotency keys and their results');
  named(parent.command('show'))
    .description('show who has a key, or the result it stands for')
    .action(async (key: string | undefined, options: Options) => {
      const command = await readContext(options);
      const wanted = await keyOf(key, options, command);
      const found = await withAdmin(command, admin => admin.idempotency.show(wanted));
      if (found === null) return finish(report(wanted, 'absent', options, output));
      if (options.json) return output.json(jsonOf(found));
      showKey(found, output);
    });
  named(parent.command('reset'))
    .description(
      'forget a result, or a holder that has ended: the next task with this key runs, effects too',
    )
    .option('--force', 'also when its holder is alive; both may then have their effect')
    .action(async (key: string | undefined, options: Options) => {
      const command = await readContext(options);
      const wanted = await keyOf(key, options, command);
      const force = options.force ?? false;
      const status = await withAdmin(command, admin => admin.idempotency.reset(wanted, { force }));
      if (status !== 'ok') return finish(report(wanted, status, options, output));
      if (options.json) return output.json({ key: wanted, status: 'reset' });
      output.line(`${wanted} is free`);
    });
};

function named(command: Command): Command {
  return command
    .argument('[key]', 'the name of a task, # and the key; # and the key of idempotencyLock')
    .option('--task <name>', 'instead of the key: the task of the call it stands for')
    .option('--input <json>', 'with --task: the input of that call');
}

/** The key as given, or computed from a call as a worker does it. */
async function keyOf(
  key: string | undefined,
  { task: name, input }: Options,
  command: CommandContext,
): Promise<string> {
  if ((key === undefined) === (name === undefined) || (name === undefined && input !== undefined))
    throw flagsConflict(
      ['key', '--task', '--input'],
      'a key is given as it is, or by task and input',
      'Use one: idempotency show \'pay#17\', or idempotency show --task pay --input \'{"order":"17"}\'.',
    );
  if (name === undefined) return key ?? '';
  const task = await findContract(name, command);
  const idempotent = task?.contract.idempotent ?? null;
  if (task === undefined || idempotent === null) {
    throw outlastError('ERR_TASK_UNKNOWN', {
      message: `no handler of this configuration runs ${name} as an idempotent task`,
      hint: 'Name its module in `tasks`, or give the key itself.',
      fields: { task: name },
    });
  }
  const { contract } = task;
  const call = await encodeInput(name, contract, input === undefined ? undefined : readJson(input));
  const given = inputFromCall(contract, decodeBody(toBytes(`[${call.args},${call.kwargs},null]`)));
  return callKey(idempotent, { name, version: contract.version, input: given }, given).key;
}

function readJson(text: string): unknown {
  try {
    return decodeJson(text);
  } catch (cause) {
    throw outlastError('ERR_INPUT_NOT_JSON', {
      message: `--input is not JSON: ${(cause as Error).message}`,
      hint: 'Give the input as the task takes it: --input \'{"orderId":"17"}\'',
      fields: { path: '--input' },
      cause,
    });
  }
}

const PROBLEMS: Readonly<
  Record<Exclude<ResetStatus, 'ok'>, { code: string; text: string; hint: string; exit: ExitCode }>
> = {
  absent: {
    code: 'ERR_NOT_FOUND',
    text: 'no task has the key',
    hint: 'It was never taken, was freed, or the time of its result is over.',
    exit: EXIT.notFound,
  },
  conflict: {
    code: 'ERR_CONFLICT',
    text: 'a task that is alive has the key',
    hint: 'Cancel that task, or use --force: both may then have their effect.',
    exit: EXIT.conflict,
  },
};

/** Prints why not; returns the exit code. */
function report(
  key: string,
  status: Exclude<ResetStatus, 'ok'>,
  { json = false }: Options,
  output: Output,
): ExitCode {
  const { code, text, hint, exit } = PROBLEMS[status];
  const message = `${text} ${key}`;
  output.notes(json ? [toJson({ error: { code, message, hint } })] : [message, hint]);
  return exit;
}

function jsonOf({ result, ...found }: KeyDetails): object {
  return { ...found, result: result === null ? null : new JsonText(toText(result)) };
}

function showKey(found: KeyDetails, output: Output): void {
  const { key, state, origin, taskId, epoch, digest, heldMs, leftMs, result, waiters } = found;
  const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;
  const isHeld = state === 'held';
  output.lines([
    `key      ${key}`,
    `state    ${state}${isHeld && !found.isHolderAlive ? ', by a task that has ended' : ''}`,
    `effects  as of ${origin}`,
    `task     ${taskId}`,
    `epoch    ${epoch}`,
    `digest   ${digest}`,
    `taken    ${seconds(heldMs)} ago`,
    ...(leftMs === null ? [] : [`ends in  ${seconds(leftMs)}`]),
    ...(isHeld ? [`waiting  ${waiters.length}`] : []),
  ]);
  if (state === 'done')
    output.line(`result   ${result === null ? '' : printableJson(toText(result))}`);
}
