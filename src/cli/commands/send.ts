import { refuseOwnMemory } from '../../config/memory-folder.ts';
import { outlastError } from '../../errors/error.ts';
import { type Task, task } from '../../task/define-task.ts';
import { decodeBody, inputFromCall, rawCall } from '../../task/input.ts';
import { decodeJson, toBytes } from '../../task/json.ts';
import { unchecked } from '../../task/standard-schema.ts';
import { sendCalls } from '../../app/create-outlast.ts';
import { type CommonOptions, addOutboxFlag, readContext, withContext } from '../context.ts';
import { type AddCommand, findContract } from '../flags.ts';
import { addSendFlags, readSendFlags } from '../send-flags.ts';

interface Options extends CommonOptions {
  readonly args: string;
  readonly kwargs: string;
}

/** `outlast send`: one task through the outbox. */
export const addSend: AddCommand = (program, output) => {
  addSendFlags(addOutboxFlag(program.command('send')))
    .description('send one task, in a transaction of its own')
    .argument('<name>', 'the task')
    .option('--args <json>', 'positional arguments: a JSON array', '[]')
    .option('--kwargs <json>', 'keyword arguments: a JSON object', '{}')
    .action(async (name: string, options: Options) => {
      checkJson('--args', options.args, '[');
      checkJson('--kwargs', options.kwargs, '{');
      const command = await readContext(options, { embedded: 'create' });
      const { context } = command;
      refuseOwnMemory(context.config.database);
      const known = await findContract(name, command);
      const sending = known ?? looseTask(name);
      if (!known && context.config.tasks.length > 0 && !options.json)
        output.note(`note: no handler of this configuration runs ${name}`);
      checkArguments(sending, options);
      const call = {
        task: sending,
        input: rawCall(options.args, options.kwargs),
        options: readSendFlags(options),
      };
      const [sent] = await withContext(context, () => sendCalls(context, [call]));
      if (options.json) output.json({ id: sent?.id, isNew: sent?.isNew });
      else output.line(sent?.id ?? '');
    });
};

/** A task without a contract here: a Python worker may have one. */
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
