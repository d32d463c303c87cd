import { LimitBook } from '../../admission/limits.ts';
import { outlastError } from '../../errors/error.ts';
import { task, type Task } from '../../task/define-task.ts';
import type { Duration } from '../../task/duration.ts';
import { decodeBody, inputFromCall, rawCall } from '../../task/input.ts';
import { decodeJson, toBytes } from '../../task/json.ts';
import { unchecked } from '../../task/standard-schema.ts';
import type { SendOptions } from '../../task/define-task.ts';
import { redactOf } from '../../wiring/redact-of.ts';
import { sendCalls } from '../../wiring/send-calls.ts';
import { addOutboxFlag, readContext, withOutboxDatabase, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';
import { findContract } from '../find-contract.ts';

interface Options extends CommonOptions {
  readonly args: string;
  readonly kwargs: string;
  readonly queue?: string;
  readonly eta?: string;
  readonly countdown?: string;
  readonly expires?: string;
  readonly id?: string;
  readonly tenant?: string;
}

/** `outlast send`: one task through the outbox. */
export const addSend: AddCommand = (program, output) => {
  addOutboxFlag(program.command('send'))
    .description('send a task through the outbox')
    .argument('<name>', 'the task')
    .option('--args <json>', 'positional arguments: a JSON array', '[]')
    .option('--kwargs <json>', 'keyword arguments: a JSON object', '{}')
    .option('--queue <name>', 'the queue')
    .option('--eta <time>', 'not before this instant, ISO 8601')
    .option('--countdown <seconds>', 'not before this long from now')
    .option('--expires <seconds>', 'not begun after this long from now')
    .option('--id <id>', 'your own id')
    .option('--tenant <name>', 'whom it is for; admission may limit tenants')
    .action(async (name: string, options: Options) => {
      checkJson('--args', options.args, '[');
      checkJson('--kwargs', options.kwargs, '{');
      const context = await readContext(options, output);
      const known = await findContract(name, context);
      const sending = known ?? looseTask(name);
      if (!known && context.config.tasks.length > 0 && !options.json)
        output.note(`note: no handler of this configuration runs ${name}`);
      checkArguments(sending, options);
      const call = {
        task: sending,
        input: rawCall(options.args, options.kwargs),
        options: sendOptions(options),
      };
      const [sent] = await withOutboxDatabase(context, outbox =>
        sendCalls(outbox, [call], {
          maxPayloadBytes: context.config.maxPayloadBytes,
          redact: redactOf(context.config, context.runtime),
          book: new LimitBook(context.config.admission),
          keyring: context.config.keyring,
        }),
      );
      if (options.json) output.json({ id: sent?.id, isNew: sent?.isNew });
      else output.line(sent?.id ?? '');
    });
};

/** A name nobody here has a contract for: Python may. */
function looseTask(name: string): Task {
  return task(name, {
    args: unchecked<unknown[]>(),
    kwargs: unchecked<Record<string, unknown>>(),
  });
}

function checkJson(option: string, text: string, opening: string): void {
  let isFine = false;
  let why = '';
  try {
    decodeJson(text);
    isFine = text.trimStart().startsWith(opening);
    why = opening === '[' ? 'it is not an array' : 'it is not an object';
  } catch (error) {
    why = (error as Error).message;
  }
  if (isFine) return;
  throw outlastError('ERR_INPUT_NOT_JSON', {
    message: `${option} is not what it should be: ${why}`,
    hint:
      opening === '['
        ? `Give a JSON array: ${option} '[1, "x"]'`
        : `Give a JSON object: ${option} '{"orderId": "17"}'`,
    fields: { path: option },
  });
}

/** Arguments that the contract has no names for are the sender's mistake, not a failure. */
function checkArguments({ name, contract }: Task, { args, kwargs }: Options): void {
  const incoming = decodeBody(toBytes(`[${args},${kwargs},null]`));
  try {
    inputFromCall(contract, incoming);
  } catch (error) {
    const message = (error as Error).message;
    throw outlastError('ERR_INPUT_INVALID', {
      message: `the input of ${name} is not what its contract asks for: ${message}`,
      hint: 'Give its fields with --kwargs, or name positional arguments in `params` of the task.',
      fields: { task: name, issues: [{ path: '', message }] },
    });
  }
}

function sendOptions(options: Options): SendOptions {
  const { queue, eta, countdown, expires, id, tenant } = options;
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(eta === undefined ? {} : { eta: new Date(eta) }),
    ...(countdown === undefined ? {} : { countdown: seconds(countdown) }),
    ...(expires === undefined ? {} : { expires: seconds(expires) }),
    ...(id === undefined ? {} : { id }),
    ...(tenant === undefined ? {} : { tenant }),
  };
}

/** A bare number is seconds; a unit is taken as well. */
const seconds = (text: string): Duration => (/^[\d.]+$/.test(text) ? `${text}s` : text) as Duration;
