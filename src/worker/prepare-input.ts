import { isOutlastError } from '../errors/error.ts';
import { checkFollowUps } from '../ledger/follow-up.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import { decodeBody, inputFromCall, parseInput } from '../task/input.ts';
import { callKeyOf } from './call-key-of.ts';
import { errorRecord } from './error-record.ts';
import type { Handler } from './handler.ts';
import { migrateInput } from './migrate-input.ts';
import type { Settlement } from './settlement.ts';

/** What the handler gets, or why it gets nothing. */
export type Prepared = { readonly input: unknown } | Settlement;

/** At once, unless a migration or the schema takes its time: see `inTime`. Never throws. */
export function prepareInput(task: BegunTask, handler: Handler): Prepared | Promise<Prepared> {
  const { contract } = handler.task;
  const { envelope } = task;
  let input: unknown;
  try {
    input = inputFromCall(contract, decodeBody(envelope.body));
    checkFollowUps(envelope);
  } catch (error) {
    return { kind: 'bury', reason: 'ERR_UNDECODABLE', error: errorRecord(error) };
  }
  try {
    const { idempotent, version } = contract;
    if (envelope.version !== version || idempotent !== null)
      return prepareSlowly(task, handler, input).catch(invalid);
    const parsed = parseInput(envelope.name, contract, input);
    return parsed instanceof Promise
      ? parsed.then((late: unknown) => ({ input: late }), invalid)
      : { input: parsed };
  } catch (error) {
    return invalid(error);
  }
}

function invalid(error: unknown): Settlement {
  const reason = isOutlastError(error) ? error.code : 'ERR_INPUT_INVALID';
  return { kind: 'bury', reason, error: errorRecord(error) };
}

async function prepareSlowly(task: BegunTask, handler: Handler, input: unknown): Promise<Prepared> {
  const { contract } = handler.task;
  const current = await migrateInput(task, handler, input);
  const parsed = await parseInput(task.envelope.name, contract, current);
  // Without a key it has not been claimed: it must not run.
  await callKeyOf(task, handler);
  return { input: parsed };
}
