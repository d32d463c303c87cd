import { isOutlastError, isUnavailable, outlastError } from '../../errors/error.ts';
import type { BegunTask, Ledger } from '../../ledger/ledger.ts';
import { uncountedChord } from '../../ledger/uncounted-chord.ts';
import { isIntact } from '../../task/digest.ts';
import { type Checked, validate } from '../../task/input.ts';
import { encodeResult, toBytes } from '../../task/json.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import { asVerdict } from '../../task/verdict.ts';
import { RefusedBySchema, errorRecord, shortText } from './error-record.ts';
import type { Checkpoints } from '../effects/checkpoints.ts';
import type { RunTrace } from '../../telemetry/traces.ts';
import { mappingHandler } from '../celery-tasks.ts';
import { withTask } from '../context.ts';
import type { EffectKey } from '../effects/door.ts';
import type { Handler } from '../handler.ts';
import { inTime } from './outages.ts';
import { type Prepared, prepareInput } from './prepare-input.ts';
import type { Isolates } from '../isolate/isolate.ts';
import { circumstancesOf, runInIsolate, stopped } from '../isolate/run-in-isolate.ts';
import { type RunLedger, RunScope, type RunScopeDeps, type RunScopeStart } from './run-scope.ts';
import { type RunStop, type Settlement, buried, failed, wanting } from './settlement.ts';

/** Every waiter reads a result back whole. */
const MAX_RESULT_BYTES = 16_777_216;

export interface ExecuteDeps extends RunScopeDeps {
  readonly handlers: ReadonlyMap<string, Handler>;
  /** Threads and processes for handlers that want one. Left out: every handler runs here. */
  readonly isolates?: Isolates;
  /** Left out: in an isolate, whose worker has loaded the progress of the task. */
  readonly checkpoints?: Checkpoints;
  /** Larger bodies are not run, whatever their source. Left out: no limit. */
  readonly maxMessageBytes?: number;
  /** How long a run may take whose task names no timeout. Left out: as long as it takes; in an isolate the task says it. */
  readonly timeoutMs?: number;
  /** Left out: nothing has to be signed. */
  readonly keyring?: Keyring;
  /** Which chords it counts. Left out: in an isolate, whose worker has checked. */
  readonly ledger?: Pick<Ledger, 'countsWithCelery' | 'countsUnsized'>;
  /** Settles a refused message that was brought back; null: the task is none. Left out: in an isolate. */
  readonly acceptAgain?: (task: BegunTask) => Promise<Settlement> | null;
  /** Whether another worker may have the task by now. Left out: in an isolate, whose worker has checked. */
  readonly isLeaseOver?: () => boolean;
}

export interface ExecuteStart {
  readonly task: BegunTask;
  readonly stop: RunStop;
  readonly ledger: RunLedger;
  /** The key that the effects of the run belong to beside its task; null: the task alone. */
  readonly effect: EffectKey | null;
  /** Left out: nothing is traced. */
  readonly trace?: RunTrace | undefined;
}

/** Runs one task from bytes to settlement. Never throws, and returns no promise if no handler runs. */
export function execute(given: ExecuteStart, deps: ExecuteDeps): Settlement | Promise<Settlement> {
  const { timeoutMs } = deps;
  const start = timeoutMs === undefined ? given : { ...given, task: { ...given.task, timeoutMs } };
  try {
    const { envelope, checkpoint } = start.task;
    const accepting = deps.acceptAgain?.(start.task) ?? null;
    if (accepting !== null) return accepting;
    const handler = mappingHandler(envelope, deps.handlers);
    if (!handler)
      return buried('ERR_TASK_UNKNOWN', `no handler for ${envelope.name} in this worker`);
    const { maxMessageBytes = Infinity } = deps;
    if (envelope.body.length > maxMessageBytes)
      return buried('ERR_PAYLOAD_TOO_LARGE', tooLarge(envelope.body.length, maxMessageBytes));
    if (!isIntact(envelope)) return buried('ERR_DIGEST', 'the bytes are not those that were sent');
    const { keyring = NO_KEYS, ledger } = deps;
    const refusal = keyring.refusalOf(envelope);
    if (refusal !== null) return buried('ERR_DIGEST', refusal);
    const uncounted = ledger === undefined ? null : uncountedChord(envelope, ledger);
    if (uncounted !== null) return buried('ERR_CHORD_UNCOUNTED', uncounted);
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

const tooLarge = (bytes: number, most: number): string =>
  `its body has ${bytes} bytes, and ${most} are run at most; raise maxMessageBytes and retry it, or send a reference to the data`;

/** A run without any settlement would come back with every beat, forever. */
function broken(error: unknown): Settlement {
  return { kind: 'bury', reason: 'ERR_INVARIANT', error: errorRecord(error) };
}

/** The path for progress that must be restored first, and for isolates. */
async function executeSlowly(
  start: ExecuteStart,
  handler: Handler,
  deps: ExecuteDeps,
): Promise<Settlement> {
  const begun = start.task;
  const task = begun.checkpoint === null ? begun : await restored(begun, handler, deps);
  if ('kind' in task) return task;
  const { stop, ledger, effect, trace } = start;
  const { isolates } = deps;
  if (handler.mode !== 'inline' && isolates) {
    const headers = trace?.isolateHeaders ?? null;
    const inside = { task, handler, mode: handler.mode, stop, headers };
    return await runInIsolate(inside, { ...deps, isolates, ledger, effect });
  }
  const preparing = Promise.resolve(prepareInput(task, handler));
  const prepared = await inTime(preparing, { task, handler, stop }, deps.runtime);
  return await runPrepared({ ...start, task }, handler, prepared, deps);
}

function runPrepared(
  { task, stop, ledger, effect, trace }: ExecuteStart,
  handler: Handler,
  prepared: Prepared,
  deps: ExecuteDeps,
): Settlement | Promise<Settlement> {
  if ('kind' in prepared) return prepared;
  // The process may have slept on the way here: no handler is entered for a run that may have lost its task.
  if (stop.reason !== null || deps.isLeaseOver?.() === true) return stopped(stop);
  const { input } = prepared;
  return runHere({ task, handler, input, stop, ledger, effect }, trace, deps);
}

/** The task with its progress loaded, wherever that is stored. */
async function restored(
  begun: BegunTask,
  handler: Handler,
  deps: ExecuteDeps,
): Promise<BegunTask | Settlement> {
  try {
    return (await deps.checkpoints?.restore(begun)) ?? begun;
  } catch (cause) {
    if (isOutlastError(cause, 'ERR_FENCE_STALE')) return { kind: 'drop' };
    if (isUnavailable(cause)) return wanting('checkpoints', cause);
    const circumstances = circumstancesOf(begun, deps.runtime);
    return failed(handler, begun, circumstances, { cause, askedMs: null });
  }
}

function runHere(
  start: RunScopeStart,
  trace: RunTrace | undefined,
  deps: ExecuteDeps,
): Promise<Settlement> {
  const { task, handler, input } = start;
  const scope = new RunScope(start, deps);
  const run = (): Promise<unknown> => invoke(handler, input, scope);
  const running = withTask(scope.context, trace ? () => trace.within(run) : run);
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

/** No promise, unless the schema of the result is asynchronous. */
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
        cause: asked(verdict.why),
        askedMs: verdict.delayMs,
      });
    case undefined: {
      const schema = handler.task.contract.result;
      if (!schema) return doneWith(null, scope);
      const checked = validate(schema, value);
      return checked instanceof Promise
        ? checked.then(late => doneWith(resultText(late, value), scope))
        : doneWith(resultText(checked, value), scope);
    }
  }
}

/** Nothing was thrown, so there is no stack. */
function asked(why: string): Error {
  const error = new Error(why || 'the handler asked for another run');
  error.stack = '';
  return error;
}

/** Null if there is no value. */
function doneWith(text: string | null, scope: RunScope): Settlement {
  const isKept = text !== null && scope.options.keepResult !== false;
  const result = isKept ? toBytes(text) : null;
  return { kind: 'commit', outcome: { kind: 'done', result }, value: text ?? 'null' };
}

/** The value is checked and stored as the handler returned it; readers parse it. */
function resultText(checked: Checked, value: unknown): string {
  if ('issues' in checked) {
    const [first] = checked.issues;
    throw new RefusedBySchema(
      `the result is not what its schema asks for: ${first?.path ?? ''} ${first?.message ?? ''}`,
      checked.issues.map(({ path }) => path),
    );
  }
  const text = encodeResult(value);
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
  // The store was away, or the fence could not be locked: not the task's fault, so no attempt is spent.
  if (scope.isStoreFailure(error)) return wanting('store', error);
  try {
    return failed(handler, task, scope, { cause: error, askedMs: null });
  } catch (cause) {
    return broken(cause);
  }
}
