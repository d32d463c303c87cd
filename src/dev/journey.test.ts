import { describe, expect, it } from 'vitest';
import type { HistoryEntry, TaskDetails } from '../ledger/dead-letter.ts';
import { journeyOf } from './journey.ts';

const at = '2026-01-01T10:00:00.000Z';
const worker = 'host:4711:6974ff178f01736a528172fc';

function entry(step: string, epoch = 1, more: Partial<HistoryEntry> = {}): HistoryEntry {
  return { at, step, epoch, worker, ...more };
}

function task(state: TaskDetails['state'], ...history: readonly HistoryEntry[]): TaskDetails {
  const epoch = Math.max(0, ...history.map(line => line.epoch));
  const counts = { epoch, failures: 0, crashes: 0 };
  return { id: 't1', name: 'a.task', queue: 'default', state, ...counts, createdAt: at, history };
}

const labels = (of: TaskDetails): readonly string[] =>
  journeyOf(of, null).map(({ label }) => label);

describe('journeyOf', () => {
  it('shows the coming steps of a task that is only committed', () => {
    expect(labels(task('pending'))).toEqual(['Committed', 'Relayed', 'Running', 'Done']);
    expect(journeyOf(task('pending'), null).map(({ tone }) => tone)).toEqual([
      'plain',
      'next',
      'next',
      'next',
    ]);
  });

  it('shows where a task runs, and under which epoch', () => {
    const journey = journeyOf(task('running', entry('relayed', 0), entry('begun')), null);
    expect(journey[2]).toMatchObject({
      label: 'Running',
      tone: 'live',
      detail: 'pid 4711, epoch 1',
    });
  });

  it('distinguishes a run that was lost from the run that finished the task', () => {
    const history = [
      entry('relayed', 0),
      entry('begun'),
      entry('reaped'),
      entry('begun', 2),
      entry('done', 2),
    ];
    const journey = journeyOf(task('done', ...history), null);
    expect(journey.map(({ label }) => label)).toEqual([
      'Committed',
      'Relayed',
      'Ran',
      'Brought back',
      'Ran',
      'Done',
    ]);
    expect(journey[3]).toMatchObject({ detail: 'pid 4711 died', tone: 'warn' });
  });

  it('shows when a failed task runs again, and why it failed', () => {
    const error = { type: 'Error', message: 'no such mailbox', traceback: '' };
    const journey = journeyOf(
      task('waiting', entry('begun'), entry('failed', 1, { error })),
      1_234,
    );
    expect(journey.slice(-3)).toMatchObject([
      { label: 'Failed', detail: 'no such mailbox' },
      { label: 'Next run', dueAt: 1_234 },
      { label: 'Done' },
    ]);
  });

  it('shortens a long history in the middle', () => {
    const runs = Array.from({ length: 40 }, (_, index) => [
      entry('begun', index + 1),
      entry('reaped', index + 1),
    ]);
    const journey = journeyOf(task('waiting', entry('relayed', 0), ...runs.flat()), null);
    expect(journey).toHaveLength(2 + 1 + 11 + 2);
    expect(journey[2]).toMatchObject({ label: '…', detail: '69 more steps' });
  });

  it('shows a step it does not know by its own name', () => {
    expect(labels(task('cancelled', entry('cancelled', 0)))).toEqual(['Committed', 'Cancelled']);
  });
});
