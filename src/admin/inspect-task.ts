import type { HistoryEntry } from '../ledger/dead-letter.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { TaskLine, TaskRecordView } from '../ledger/task-line.ts';
import type { OutboxReads, RowView } from '../outbox/outbox-reads.ts';
import type { Ending } from '../result/result-store.ts';
import { toText } from '../task/json.ts';
import { itemsOf } from '../task/json-slices.ts';
import type { Redact } from '../task/redact.ts';
import { shownPayload } from '../task/redacted.ts';
import { withCopies } from '../task/digest.ts';
import { lifeLine, type LifeMoment } from './life-line.ts';
import { shownCheckpoint } from './shown-checkpoint.ts';
import { lineOfLetter, lineOfRow } from './list-tasks.ts';

/** One task with its input, its result and what happened to it. */
export interface TaskInspection extends TaskLine {
  readonly ending: Ending | null;
  /** JSON texts. Null: the store does not keep them any more, or they cannot be read. */
  readonly argsJson: string | null;
  readonly kwargsJson: string | null;
  /** JSON text. With a redactor it is hidden: a redactor knows arguments only. */
  readonly resultJson: string | null;
  /** The last checkpoint of a task that is not over, as JSON text; hidden as results are. */
  readonly checkpointJson: string | null;
  /** What is shown are copies without secrets. */
  readonly isRedacted: boolean;
  readonly history: readonly HistoryEntry[];
  /** From its send to its end, with the time between two moments. */
  readonly life: readonly LifeMoment[];
}

export interface InspectSources {
  readonly outboxReads: Pick<OutboxReads, 'view' | 'showDeadLetter'>;
  readonly ledgerReads: Pick<LedgerReads, 'view' | 'moments'>;
}

export interface InspectSettings {
  readonly redact: Redact | null;
  /** Whether a broker stands between outbox and ledger. */
  readonly hasBroker: boolean;
}

/** What the stores have of a task: at most one is not null. */
export interface FoundTask {
  readonly row: RowView | null;
  readonly record: TaskRecordView | null;
}

/** In the order in which a task moves: a store that is read later may have it from the one before. */
export async function findTask(sources: InspectSources, id: string): Promise<FoundTask> {
  const row = await sources.outboxReads.view(id);
  const record = await sources.ledgerReads.view(id);
  return { row: record === null ? row : null, record };
}

export async function inspectTask(
  sources: InspectSources,
  id: string,
  { redact, hasBroker }: InspectSettings,
): Promise<TaskInspection | null> {
  const { row, record } = await findTask(sources, id);
  if (record !== null) {
    const { ending, history, result } = record;
    const { refusedBy: _, isSuspect: __, nowMs: ___, body: ____, options: _____, ...line } = record;
    return {
      ...line,
      ending,
      history,
      life: lifeLine({ ...record, isReceived: hasBroker }),
      ...shownCall(record, redact),
      ...shownResult(result, redact),
      checkpointJson: await shownCheckpoint(sources.ledgerReads, id, redact),
    };
  }
  if (row !== null)
    return {
      ...lineOfRow(row),
      ...UNENDED,
      history: row.history,
      life: lifeLine({ ...row, isReceived: false }),
      ...shownCall(row, redact),
    };
  const letter = await sources.outboxReads.showDeadLetter(id);
  if (letter === null) return null;
  const { history } = letter;
  const failures = history.filter(({ error }) => error !== undefined).length;
  return {
    ...lineOfLetter(letter),
    ...UNENDED,
    failures,
    history,
    life: lifeLine({ ...letter, isReceived: false }),
    ending: 'dead',
    ...shownCall(letter, redact),
  };
}

const UNENDED = { ending: null, resultJson: null, checkpointJson: null } as const;

type Shown = Pick<TaskInspection, 'argsJson' | 'kwargsJson' | 'isRedacted'>;

interface Call {
  readonly name: string;
  readonly body: Uint8Array;
  readonly options: Uint8Array;
  readonly isRedacted: boolean;
}

/** A task that was stored without copies is redacted now. */
function shownCall(call: Call, redact: Redact | null): Shown {
  if (call.body.length === 0)
    return { argsJson: null, kwargsJson: null, isRedacted: redact !== null };
  const isRedactedNow = redact !== null && !call.isRedacted;
  const { body } = isRedactedNow
    ? shownPayload({ ...withCopies(call, redact), redactedArgs: null, redactedKwargs: null })
    : call;
  const isRedacted = call.isRedacted || isRedactedNow;
  try {
    const [argsJson = null, kwargsJson = null] = itemsOf(toText(body));
    return { argsJson, kwargsJson, isRedacted };
  } catch {
    return { argsJson: null, kwargsJson: null, isRedacted };
  }
}

function shownResult(
  result: Uint8Array | null,
  redact: Redact | null,
): Pick<TaskInspection, 'resultJson'> {
  if (result === null) return { resultJson: null };
  return { resultJson: redact === null ? toText(result) : '"[hidden]"' };
}
