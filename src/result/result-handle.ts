import { isUnavailable, outlastError } from '../errors/error.ts';
import { type Clock, sleep } from '../runtime/runtime.ts';
import { type Duration, durationMs } from '../task/duration.ts';
import type { Task } from '../task/define-task.ts';
import { validate } from '../task/input.ts';
import { chordLetterId } from '../task/chord-link.ts';
import { decodePython, toText } from '../task/json.ts';
import type { LifeState, ResultRecord, ResultStore } from './result-store.ts';

/** Options of `result()`. */
export interface ResultOptions {
  /** How long to wait. @default '30s' */
  readonly timeout?: Duration;
  readonly signal?: AbortSignal;
}

/** A task that was sent. Not thenable: awaiting `send` inside a transaction must not wait for the outcome. */
export interface TaskHandle<Result = unknown> {
  readonly id: string;
  readonly name: string;
  /** False: an earlier send with the same key or id had created it already. */
  readonly isNew: boolean;
  /** Waits for the outcome. Throws an `OutcomeError` when there is no result. */
  result(options?: ResultOptions): Promise<Result>;
  state(): Promise<LifeState>;
  /** The task never comes back: it is not begun any more, and a running attempt commits nothing. */
  cancel(): Promise<void>;
}

export interface HandleDeps {
  readonly results: () => Promise<ResultStore>;
  readonly cancel: (task: Task, id: string) => Promise<void>;
  readonly clock: Clock;
}

export interface HandleOrigin {
  readonly id: string;
  readonly isNew: boolean;
  /** Tasks that must be done before this one exists, in their order; empty outside of workflows. */
  readonly before?: readonly { readonly id: string; readonly task: Task }[];
  /** True while the transaction it was sent in is known to be open. */
  readonly isUncommitted: () => boolean;
  /** Cancels in that transaction, while it is open: from outside one would wait for its end. */
  readonly cancelInside?: ((id: string) => Promise<void>) | undefined;
}

// Short waits first: most tasks are done within a moment. Long ones later: a caller may wait for an hour.
const FIRST_POLL_MS = 10;
const LONGEST_POLL_MS = 500;

export function createHandle(task: Task, origin: HandleOrigin, deps: HandleDeps): TaskHandle {
  const { id, isNew, cancelInside, isUncommitted } = origin;
  const cancel = async (step: { readonly id: string; readonly task: Task }): Promise<void> => {
    if (cancelInside !== undefined && isUncommitted()) await cancelInside(step.id);
    else await deps.cancel(step.task, step.id);
  };
  return {
    id,
    name: task.name,
    isNew,
    state: () => readState(origin, deps),
    cancel: async () => {
      // The last first: a step that ends meanwhile finds the next one cancelled.
      const steps = [...(origin.before ?? []), { id, task }].toReversed();
      for (const step of steps) await cancel(step);
    },
    result: options => awaitResult(task, origin, deps, options ?? {}),
  };
}

async function awaitResult(
  task: Task,
  origin: HandleOrigin,
  deps: HandleDeps,
  options: ResultOptions,
): Promise<unknown> {
  const { clock } = deps;
  const timeoutMs = durationMs(options.timeout ?? '30s', 'timeout');
  const endsAt = clock.monotonic() + timeoutMs;
  let pollMs = FIRST_POLL_MS;
  const before = [...(origin.before ?? [])];
  let isKnown = false;
  for (;;) {
    options.signal?.throwIfAborted();
    const record = await readPatiently(deps, origin.id);
    const isNeverSent = record?.of !== undefined;
    if (record?.ending && !isNeverSent) return await settle(task, origin.id, record);
    const earlier = await lookBefore(before, deps);
    const isOfOthers = before.length > 0 && earlier === 'unknown';
    if (isNeverSent || isOfOthers) await refuseFailedChord(task, origin.id, deps);
    // The steps before it, and the letter of a chord, say more.
    if (record?.ending) return await settle(task, record.of ?? origin.id, record);
    const state = record?.state ?? 'unknown';
    isKnown ||= state !== 'unknown' || earlier !== 'unknown';
    // A known task is committed: the connection may be in another caller's transaction by now.
    if (!isKnown && origin.isUncommitted()) throw beforeCommit(origin.id);
    const leftMs = endsAt - clock.monotonic();
    if (leftMs <= 0) throw timedOut(origin.id, state, timeoutMs);
    await sleep(clock, Math.min(pollMs, leftMs), options.signal);
    pollMs = Math.min(pollMs * 1.5, LONGEST_POLL_MS);
  }
}

/**
 * Removes the steps that are done, and returns the state of the first of the rest. A step that ended otherwise ends the
 * waiting: the awaited task will never exist.
 */
async function lookBefore(
  before: NonNullable<HandleOrigin['before']>[number][],
  deps: HandleDeps,
): Promise<LifeState> {
  let state: LifeState = 'unknown';
  for (let [step] = before; step !== undefined; [step] = before) {
    const record = await readPatiently(deps, step.id);
    if (!record?.ending) return record?.state === 'unknown' ? state : (record?.state ?? state);
    if (record.ending !== 'done') await settle(step.task, step.id, record);
    state = record.state;
    before.shift();
  }
  return state;
}

/** A part that another language ran is unknown here; the letter beside the body shows that its chord has failed. */
async function refuseFailedChord(task: Task, id: string, deps: HandleDeps): Promise<void> {
  const record = await readPatiently(deps, chordLetterId(id));
  if (record?.ending === 'dead') await settle(task, chordLetterId(id), record);
}

/** The state of the task itself, or, before it exists, of the step that is at work. */
async function readState({ id, before = [] }: HandleOrigin, deps: HandleDeps): Promise<LifeState> {
  const results = await deps.results();
  const { state } = await results.read(id);
  if (state !== 'unknown') return state;
  for (const step of before) {
    const earlier = await results.read(step.id);
    if (earlier.ending !== 'done') return earlier.state;
  }
  return before.length === 0 ? 'unknown' : 'pending';
}

/** Waits for a store that is briefly away, as for the result itself. */
async function readPatiently(deps: HandleDeps, id: string): Promise<ResultRecord | null> {
  try {
    return await (await deps.results()).read(id);
  } catch (error) {
    if (isUnavailable(error)) return null;
    throw error;
  }
}

async function settle(task: Task, id: string, record: ResultRecord): Promise<unknown> {
  const fields = { id };
  switch (record.ending) {
    case 'done':
      return await readResult(task, id, record);
    case 'discarded':
      throw outlastError('ERR_TASK_DISCARDED', {
        message: `${id} was discarded: ${record.why ?? ''}`,
        hint: 'Its handler decided that there was nothing to do.',
        fields,
      });
    case 'cancelled':
      throw outlastError('ERR_TASK_CANCELLED', {
        message: `${id} was cancelled`,
        hint: 'Send it again under another id if it is still wanted.',
        fields,
      });
    case 'expired':
      throw outlastError('ERR_TASK_EXPIRED', {
        message: `${id} was not begun before it expired`,
        hint: 'Run more workers, or let it expire later.',
        fields,
      });
    case 'dead':
    case null: {
      const { type, message, traceback } = record.error ?? {
        type: 'unknown',
        message: record.why ?? '',
        traceback: '',
      };
      throw outlastError('ERR_TASK_FAILED', {
        message: `${id} failed: ${message}`,
        hint: `See: outlast dead-letters show ${id}`,
        fields: { id, type, traceback },
      });
    }
  }
}

async function readResult(task: Task, id: string, record: ResultRecord): Promise<unknown> {
  const schema = task.contract.result;
  if (!schema) return undefined;
  if (record.result === null) {
    throw outlastError('ERR_RESULT_GONE', {
      message: `the result of ${id} was not kept`,
      hint: 'Send with keepResult left out, or declare a result.',
      fields: { id },
    });
  }
  const checked = await validate(schema, decodePython(toText(record.result)));
  if ('value' in checked) return checked.value;
  throw outlastError('ERR_RESULT_INVALID', {
    message: `the result of ${id} is not what ${task.name} declares: ${checked.issues[0]?.message ?? ''}`,
    hint: 'The worker runs another version of the contract: deploy both sides.',
    fields: { id, issues: checked.issues },
  });
}

function beforeCommit(id: string): Error {
  return outlastError('ERR_RESULT_BEFORE_COMMIT', {
    message: `${id} is still in an open transaction, so no worker can run it yet`,
    hint: 'Ask for the result after COMMIT.',
    fields: { id },
  });
}

function timedOut(id: string, state: LifeState, timeoutMs: number): Error {
  return outlastError('ERR_RESULT_TIMEOUT', {
    message: `${id} is ${state} after ${timeoutMs} ms`,
    hint:
      state === 'unknown'
        ? 'It was rolled back, or its transaction is still open (ask after COMMIT, never inside of it), or it is a step whose turn has not come.'
        : `\`outlast tasks why ${id}\` says what it waits for. Or wait longer: result({ timeout }).`,
    fields: { id, state },
  });
}

/**
 * What a ledger and a separate outbox know of a task. The ledger is asked again after the outbox: a task found in neither
 * may have moved from one to the other between the two reads.
 */
export function resultsOf(ledger: ResultStore, outbox: ResultStore): ResultStore {
  const isKnown = ({ state }: ResultRecord): boolean => state !== 'unknown';
  return {
    read: async id => {
      const first = await ledger.read(id);
      if (isKnown(first)) return first;
      const before = await outbox.read(id);
      return isKnown(before) ? before : await ledger.read(id);
    },
  };
}

/** The group has the first of these states that one of its tasks is in: trouble first, the end last. */
const PRECEDENCE: readonly LifeState[] = [
  'dead',
  'cancelled',
  'unknown',
  'running',
  'waiting',
  'pending',
  'done',
];

/** Many tasks as one: its result is the list of theirs. */
export function createGroupHandle(
  { id, isNew }: { readonly id: string; readonly isNew: boolean },
  members: readonly TaskHandle[],
  { clock }: Pick<HandleDeps, 'clock'>,
): TaskHandle<unknown[]> {
  const result = async (options: ResultOptions = {}): Promise<unknown[]> => {
    const endsAt = clock.monotonic() + durationMs(options.timeout ?? '30s', 'timeout');
    const results: unknown[] = [];
    // One after the other: while the first is waited for the others get done, and most need only one read.
    for (const member of members) {
      const leftMs = Math.max(0, Math.ceil(endsAt - clock.monotonic()));
      results.push(await member.result({ ...options, timeout: `${leftMs}ms` }));
    }
    return results;
  };
  const state = async (): Promise<LifeState> => {
    const states = new Set<LifeState>();
    for (const member of members) states.add(await member.state());
    return PRECEDENCE.find(name => states.has(name)) ?? 'done';
  };
  const cancel = async (): Promise<void> => {
    for (const member of members) await member.cancel();
  };
  return { id, name: 'group', isNew, result, state, cancel };
}
