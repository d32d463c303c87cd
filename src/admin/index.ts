export { createAdmin } from './create-admin.ts';
export type { Admin } from './create-admin.ts';
export type {
  PurgeOptions,
  PurgeSummary,
  RetryAllOptions,
  RetryStatus,
  RetrySummary,
} from './dead-letters.ts';
export type { KeyDetails, ResetStatus } from './idempotency-keys.ts';
export type { Stats } from './read-model.ts';
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
