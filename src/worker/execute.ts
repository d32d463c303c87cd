import { isOutlastError, outlastError } from '../errors/error.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import { isIntact } from '../task/digest.ts';
import { validate, type Checked } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { NO_KEYS, type Keyring } from '../task/keyring.ts';
import { asVerdict } from '../task/verdict.ts';
import type { Checkpoints } from './checkpoints.ts';
import { withTask } from './context.ts';
import { errorRecord, shortText } from './error-record.ts';
import type { EffectKey } from './door.ts';
import type { Handler } from './handler.ts';
import { inTime } from './in-time.ts';
import { prepareInput, type Prepared } from './prepare-input.ts';
import type { Rooms } from './room.ts';
import { circumstancesOf, runInRoom, stopped } from './run-in-room.ts';
import { RunScope, type RunLedger, type RunScopeDeps, type RunScopeStart } from './run-scope.ts';
import type { RunStop } from './run-stop.ts';
import { buried, failed, type Settlement } from './settlement.ts';

/** A result is read back whole by everybody who waits for it. */
const MAX_RESULT_BYTES = 16_777_216;

export interface ExecuteDeps extends RunScopeDeps {
  readonly handlers: ReadonlyMap<string, Handler>;
  /** Threads and processes for handlers that want one. Left out: every handler runs here. */
  readonly rooms?: Rooms;
  /** Left out: in a room, whose worker has fetched the progress of the task. */
  readonly checkpoints?: Checkpoints;
  /** Left out: nothing has to be signed. */
  readonly keyring?: Keyring;
  /** Whether others may have the task by now. Left out: in a room, whose worker has looked. */
  readonly isLeaseOver?: () => boolean;
}

export interface ExecuteStart {
  readonly task: BegunTask;
  readonly stop: RunStop;
  readonly ledger: RunLedger;
  /** What the effects of the run belong to beside its task; null: the task alone. */
  readonly effect: EffectKey | null;
}

/** Runs one task from bytes to settlement. Never throws, and answers at once where no handler runs. */
export function execute(start: ExecuteStart, deps: ExecuteDeps): Settlement | Promise<Settlement> {
  try {
    const { envelope, checkpoint } = start.task;
    const handler = deps.handlers.get(envelope.name);
    if (!handler)
      return buried('ERR_TASK_UNKNOWN', `no handler for ${envelope.name} in this worker`);
    if (!isIntact(envelope)) return buried('ERR_DIGEST', 'the bytes are not those that were sent');
    const refusal = (deps.keyring ?? NO_KEYS).refusalOf(envelope);
    if (refusal !== null) return buried('ERR_DIGEST', refusal);
    if (checkpoint === null && handler.mode === 'inline') {
      const prepared = prepareInput(start.task, handler);
      if (!(prepared instanceof Promise)) return runPrepared(start, handler, prepared, deps);
      return inTime(prepared, { ...start, handler }, deps.runtime)
        .then(late => runPrepared(start, handler, late, deps))
        .catch(broken);
    }
    return executeSlowly(start, handler, deps).catch(broken);
  } catch (error) {
    return broken(error);
  }
}

/** A run that ended in no way at all would come back with every beat, for ever. */
function broken(error: unknown): Settlement {
  return { kind: 'bury', reason: 'ERR_INVARIANT', error: errorRecord(error) };
}

/** With progress that is to be restored first, or in a room. */
async function executeSlowly(
  start: ExecuteStart,
  handler: Handler,
  deps: ExecuteDeps,
): Promise<Settlement> {
  const begun = start.task;
  const task = begun.checkpoint === null ? begun : await restored(begun, handler, deps);
  if ('kind' in task) return task;
  const { stop, ledger, effect } = start;
  const { rooms } = deps;
  if (handler.mode !== 'inline' && rooms) {
    const inside = { task, handler, mode: handler.mode, stop };
    return await runInRoom(inside, { ...deps, rooms, ledger, effect });
  }
  const preparing = Promise.resolve(prepareInput(task, handler));
  const prepared = await inTime(preparing, { task, handler, stop }, deps.runtime);
  return await runPrepared({ ...start, task }, handler, prepared, deps);
}

function runPrepared(
  { task, stop, ledger, effect }: ExecuteStart,
  handler: Handler,
  prepared: Prepared,
  deps: ExecuteDeps,
): Settlement | Promise<Settlement> {
  if ('kind' in prepared) return prepared;
  // Whatever slept on the way here: no handler is entered for a run that may be another's.
  if (stop.reason !== null || deps.isLeaseOver?.() === true) return stopped(stop);
  return runHere({ task, handler, input: prepared.input, stop, ledger, effect }, deps);
}

/** With its progress at hand, wherever that is kept. */
async function restored(
  begun: BegunTask,
  handler: Handler,
  deps: ExecuteDeps,
): Promise<BegunTask | Settlement> {
  try {
    return (await deps.checkpoints?.restore(begun)) ?? begun;
  } catch (cause) {
    if (isOutlastError(cause, 'ERR_FENCE_STALE')) return { kind: 'drop' };
    const circumstances = circumstancesOf(begun, deps.runtime);
    return failed(handler, begun, circumstances, { cause, askedMs: null });
  }
}

function runHere(start: RunScopeStart, deps: ExecuteDeps): Promise<Settlement> {
  const { task, handler, input } = start;
  const scope = new RunScope(start, deps);
  const running = withTask(scope.context, () => invoke(handler, input, scope));
  return scope.race(running, {
    done: value => settleValue(handler, task, scope, value),
    failed: error => settleError(handler, task, scope, error),
  });
}

/** A handler that throws before its first await must look like one that rejects. */
function invoke(handler: Handler, input: unknown, scope: RunScope): Promise<unknown> {
  if (handler.fence === 'start') return invokeFenced(handler, input, scope);
  try {
    return Promise.resolve(handler.run(input, scope.context));
  } catch (error) {
    return Promise.reject(error);
  }
}

async function invokeFenced(handler: Handler, input: unknown, scope: RunScope): Promise<unknown> {
  await scope.fenceOff();
  return await handler.run(input, scope.context);
}

/** At once, unless the schema of the result takes its time. */
function settleValue(
  handler: Handler,
  task: BegunTask,
  scope: RunScope,
  value: unknown,
): Settlement | Promise<Settlement> {
  const verdict = asVerdict(value);
  switch (verdict?.kind) {
    case 'discard':
      return {
        kind: 'commit',
        outcome: { kind: 'discarded', why: shortText(verdict.why) },
        value: 'null',
      };
    case 'bury':
      return buried('buried by its handler', shortText(verdict.why));
    case 'retry':
      return failed(handler, task, scope, {
        cause: new Error(verdict.why || 'the handler asked for another run'),
        askedMs: verdict.delayMs,
      });
    case undefined: {
      const schema = handler.task.contract.result;
      if (!schema) return doneWith(null, scope);
      const checked = validate(schema, value);
      return checked instanceof Promise
        ? checked.then(late => doneWith(encodeResult(late, value), scope))
        : doneWith(encodeResult(checked, value), scope);
    }
  }
}

/** Null where there is no value. */
function doneWith(text: string | null, scope: RunScope): Settlement {
  const isKept = text !== null && scope.options.keepResult !== false;
  const result = isKept ? toBytes(text) : null;
  return { kind: 'commit', outcome: { kind: 'done', result }, value: text ?? 'null' };
}

/** It is checked as the handler gave it, and stored so; readers parse it. */
function encodeResult(checked: Checked, value: unknown): string {
  if ('issues' in checked) {
    const [first] = checked.issues;
    throw new TypeError(
      `the result is not what its schema asks for: ${first?.path ?? ''} ${first?.message ?? ''}`,
    );
  }
  const text = encodeJson(value);
  const bytes = Buffer.byteLength(text);
  if (bytes <= MAX_RESULT_BYTES) return text;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `a result of ${bytes} bytes is larger than the ${MAX_RESULT_BYTES} allowed`,
    hint: 'Store the data elsewhere and return a reference to it.',
    fields: { bytes, maxBytes: MAX_RESULT_BYTES },
  });
}

/** Never throws. */
function settleError(
  handler: Handler,
  task: BegunTask,
  scope: RunScope,
  error: unknown,
): Settlement {
  const reason = scope.stopReason();
  if (reason === 'lost' || isOutlastError(error, 'ERR_FENCE_STALE')) return { kind: 'drop' };
  if (reason === 'release') return { kind: 'release' };
  // The store was away, or the fence did not come: no fault of the task, so no attempt is spent.
  if (scope.isStoreFailure(error)) return { kind: 'release' };
  try {
    return failed(handler, task, scope, { cause: error, askedMs: null });
  } catch (cause) {
    return broken(cause);
  }
}
