export { createAdmin } from './create-admin.ts';
export type { Admin, TaskListOptions } from './create-admin.ts';
export type { TaskInspection } from './inspect-task.ts';
export type { LifeMoment } from './life-line.ts';
export type { ShownLetter } from './show-letter.ts';
export type { TaskPage } from './list-tasks.ts';
export type { TaskFilter, TaskListState } from './task-filter.ts';
export type { InflightPage, InflightTask } from './tasks.ts';
export type { WhyAnswer, WhyCode } from './why.ts';
export type { TaskLine } from '../ledger/task-line.ts';
export type {
  PurgeOptions,
  PurgeSummary,
  RetryAllOptions,
  RetryStatus,
  RetrySummary,
} from './dead-letters.ts';
export type { KeyDetails, ResetStatus } from './idempotency-keys.ts';
export type { Stats } from './read-model.ts';
export type { BurnFigures, BurnReport, BurnStatus, BurnWindow } from '../ledger/burn-rate.ts';
export type { Figure, TaskTotals } from '../ledger/tallies.ts';
export type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  HistoryEntry,
  TaskDetails,
} from '../ledger/dead-letter.ts';
export type { KeyFigures } from '../admission/admission-store.ts';
export type { Consumer } from '../ledger/control-store.ts';
export type { OutboxEntry, OutboxPage } from '../outbox/outbox-reads.ts';
