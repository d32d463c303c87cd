import { isOutlastError } from '../../errors/error.ts';
import { checkFollowUps } from '../../ledger/follow-up.ts';
import type { BegunTask, ErrorRecord } from '../../ledger/ledger.ts';
import { MeasuredEnvelope } from '../../task/digest.ts';
import type { Envelope } from '../../task/envelope.ts';
import { decodeBody, inputFromCall, parseInput } from '../../task/input.ts';
import { jsonFault } from '../../task/json-limits.ts';
import { briefly, errorRecord } from './error-record.ts';
import { callKeyOf } from './call-key.ts';
import type { Handler } from '../handler.ts';
import { migrateInput } from './migrate-input.ts';
import type { Settlement } from './settlement.ts';

/** The input of the handler, or the settlement if it gets none. */
export type Prepared = { readonly input: unknown } | Settlement;

/** No promise, unless a migration or the schema is asynchronous: see `inTime`. Never throws. */
export function prepareInput(task: BegunTask, handler: Handler): Prepared | Promise<Prepared> {
  const { contract } = handler.task;
  const { envelope } = task;
  let input: unknown;
  try {
    refuseUnbounded(envelope);
    input = inputFromCall(contract, decodeBody(envelope.body));
    checkFollowUps(envelope);
  } catch (error) {
    const isTooLarge = isOutlastError(error, 'ERR_FOLLOW_UPS_TOO_LARGE');
    if (isTooLarge) return { kind: 'bury', reason: error.code, error: errorRecord(error) };
    return { kind: 'bury', reason: 'ERR_UNDECODABLE', ...unreadable(error) };
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

/** A message of a broker was checked when it came. A row in a table may have been written by any program. */
function refuseUnbounded(envelope: Envelope): void {
  const fault = MeasuredEnvelope.is(envelope) ? null : jsonFault(envelope.body);
  if (fault !== null) throw new TypeError(fault);
}

function invalid(error: unknown): Settlement {
  const reason = isOutlastError(error) ? error.code : 'ERR_INPUT_INVALID';
  return { kind: 'bury', reason, error: errorRecord(error), ...briefly(error) };
}

/** Parsers quote what they cannot read. */
function unreadable(error: unknown): { error: ErrorRecord; brief: ErrorRecord } {
  const record = errorRecord(error);
  const message = 'the body is not what this task takes';
  return { error: record, brief: { type: record.type, message, traceback: '' } };
}

async function prepareSlowly(task: BegunTask, handler: Handler, input: unknown): Promise<Prepared> {
  const { contract } = handler.task;
  const current = await migrateInput(task, handler, input);
  const parsed = await parseInput(task.envelope.name, contract, current);
  // Without a key it has not been claimed: it must not run.
  await callKeyOf(task, handler);
  return { input: parsed };
}
