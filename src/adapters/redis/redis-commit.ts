import type { CommitItem } from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import { encodeAfter } from './redis-after.ts';
import { NewTask, type NewBatch } from './redis-begin.ts';
import { idsOf, Kinds, membersOfKind, sparse } from './redis-batch.ts';
import type { Rank } from './redis-keys.ts';
import { Column, PackedBytes, type Packable, type Packer } from './redis-pack.ts';
import { keepsNoResult, putDigest } from './redis-record.ts';

/** A commit of a task whose whole record is known here. */
export type NewCommit = CommitItem & { readonly ref: NewTask };

export function isOfNew(item: CommitItem): item is NewCommit {
  return item.ref instanceof NewTask && item.ref.isPlain && item.outcome.kind === 'done';
}

/** How a ledger writes commits. */
export interface CommitManner {
  /** Outcomes are kept in Celery's format for so long; 0: they are not. */
  readonly celeryResultMs: number;
  readonly rank: Rank;
}

/** An item in the format of `ledger-commit`. */
export function commitParts(item: CommitItem, { celeryResultMs, rank }: CommitManner): Packable[] {
  const { ref, outcome } = item;
  return [
    ref.id,
    ref.epoch,
    ref.run,
    outcome.kind,
    outcome.kind === 'discarded' ? outcome.why : '',
    resultOf(item),
    keepMsOf(item, celeryResultMs),
    afterOf(item, rank),
    item.children ?? false,
  ];
}

/** Items in the format of `ledger-commit-new`: by the batches in which they were begun. */
export function newCommitParts(items: readonly NewCommit[], manner: CommitManner): Packable[] {
  const batches: Packable[] = [];
  let [batch, keepMs, some]: [NewBatch | null, number, NewCommit[]] = [null, 0, []];
  for (const item of items) {
    const itsKeepMs = keepMsOf(item, manner.celeryResultMs);
    if (item.ref.batch !== batch || itsKeepMs !== keepMs) {
      if (batch !== null) batches.push(batchParts(batch, keepMs, some, manner.rank));
      [batch, keepMs, some] = [item.ref.batch, itsKeepMs, []];
    }
    some.push(item);
  }
  if (batch !== null) batches.push(batchParts(batch, keepMs, some, manner.rank));
  return batches;
}

function batchParts(
  batch: NewBatch,
  keepMs: number,
  items: readonly NewCommit[],
  rank: Rank,
): Packable[] {
  const { worker, epoch, run, begunMs, crashBudgets } = batch;
  const envelopes = items.map(({ ref }) => ref.envelope);
  const kinds = new Kinds();
  const kindOf = envelopes.map(envelope => kinds.numberOf(envelope));
  const budgetOf = ({ name }: Envelope): number => crashBudgets[name] ?? crashBudgets['*'] ?? 0;
  return [
    worker,
    epoch,
    run,
    begunMs,
    keepMs,
    kinds.first.map(kind => [
      kind.queue,
      membersOfKind(kind, rank),
      new PackedBytes(['', '', 0, 0, budgetOf(kind)]),
    ]),
    idsOf(envelopes),
    kindOf,
    new Column(items.length, (packer, index) => putTombstone(packer, envelopes[index] as Envelope)),
    sparse(items, resultOf),
    sparse(items, item => item.after.length > 0 && afterOf(item, rank)),
    sparse(envelopes, keepsNoResult),
    sparse(items, item => item.children ?? false),
  ];
}

/** The members DIGEST to EXPIRES of a tombstone. */
function putTombstone(packer: Packer, envelope: Envelope): void {
  const head = packer.open();
  putDigest(packer, envelope);
  packer.put(envelope.etaMs ?? false);
  packer.put(envelope.expiresMs ?? false);
  packer.close(head);
}

const resultOf = ({ outcome }: CommitItem): Packable =>
  (outcome.kind === 'done' ? outcome.result : null) ?? false;

const afterOf = ({ after }: CommitItem, rank: Rank): Packable[] =>
  after.flatMap(entry => [entry.key, encodeAfter(entry, rank)]);

/** A tombstone stays as long as its result, if the result is stored nowhere else. */
function keepMsOf(item: CommitItem, celeryResultMs: number): number {
  const isKeptHere = resultOf(item) !== false && celeryResultMs === 0;
  return Math.round(Math.max(item.dedupMs, isKeptHere ? item.resultMs : 0));
}
