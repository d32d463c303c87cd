import type { CommitItem } from '../../ledger/ledger.ts';
import { encodeAfter } from './redis-after.ts';
import { NewTask, type NewBatch } from './redis-begin.ts';
import { PackedApart, type Packable } from './redis-pack.ts';
import { tombstonePlaces } from './redis-record.ts';

/** A commit of a task whose whole record is known here. */
export type NewCommit = CommitItem & { readonly ref: NewTask };

export function isOfNew(item: CommitItem): item is NewCommit {
  return item.ref instanceof NewTask && item.ref.isPlain && item.outcome.kind === 'done';
}

/** An item as `ledger-commit` takes it. */
export function commitParts(item: CommitItem, celeryResultMs: number): Packable[] {
  const { ref, outcome } = item;
  return [
    ref.id,
    ref.epoch,
    ref.run,
    outcome.kind,
    outcome.kind === 'discarded' ? outcome.why : '',
    resultOf(item),
    keepMsOf(item, celeryResultMs),
    afterOf(item),
  ];
}

/** Items as `ledger-commit-new` takes them: by the batches in which they were begun. */
export function newCommitParts(items: readonly NewCommit[], celeryResultMs: number): Packable[] {
  const batches: Packable[] = [];
  let [last, lastKeepMs, tasks]: [NewBatch | null, number, Packable[]] = [null, 0, []];
  for (const item of items) {
    const { batch } = item.ref;
    const keepMs = keepMsOf(item, celeryResultMs);
    if (batch !== last || keepMs !== lastKeepMs) {
      [last, lastKeepMs, tasks] = [batch, keepMs, []];
      batches.push([batch.worker, batch.epoch, batch.run, batch.begunMs, keepMs, tasks]);
    }
    tasks.push(taskParts(item));
  }
  return batches;
}

function taskParts(item: NewCommit): Packable[] {
  const { envelope, batch } = item.ref;
  const budget = batch.crashBudgets[envelope.name] ?? batch.crashBudgets['*'] ?? 0;
  const kept = new PackedApart(tombstonePlaces(envelope, budget));
  return [envelope.id, envelope.queue, kept, resultOf(item), afterOf(item)];
}

const resultOf = ({ outcome }: CommitItem): Packable =>
  (outcome.kind === 'done' ? outcome.result : null) ?? false;

const afterOf = ({ after }: CommitItem): Packable[] =>
  after.flatMap(entry => [entry.key, encodeAfter(entry)]);

/** A tombstone stays as long as the result, where it is the only place that has it. */
function keepMsOf(item: CommitItem, celeryResultMs: number): number {
  const isKeptHere = resultOf(item) !== false && celeryResultMs === 0;
  return Math.round(Math.max(item.dedupMs, isKeptHere ? item.resultMs : 0));
}
