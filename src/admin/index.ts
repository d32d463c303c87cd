export { createAdmin } from './create-admin.ts';
export type { Admin } from './create-admin.ts';
export type {
  DeadLetterDetails,
  DeadLetterPage,
  DeadLetterSummary,
  HistoryEntry,
  Stats,
  TaskDetails,
} from './read-model.ts';
