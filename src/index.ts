/** Outlast: background tasks that outlast crashes. Public names only, in the order of a task's life. */
export * from './task/index.ts';
export { defineConfig } from './config/config.ts';
export type { OutlastConfig } from './config/config.ts';
export type { ScheduleOptions } from './config/options.generated.ts';
export { createOutlast } from './app/create-outlast.ts';
export type {
  CreateOptions,
  HandlesOf,
  LockOptions,
  Outlast,
  SqlTransaction,
} from './app/outlast.ts';
export type { ScheduleDetails, Schedules } from './app/create-schedules.ts';
export type { TransactionAdapter, TransactionStatus } from './outbox/transaction-adapter.ts';
export type { ResultOptions, TaskHandle } from './result/result-handle.ts';
export type { LifeState } from './result/result-store.ts';
export { runOnce, startRelay, startResurrector, startWorker } from './app/start-services.ts';
export type { RunOnceReport } from './app/run-once.ts';
export type { StartOptions } from './app/services.ts';
export { shutdownSignal } from './process/shutdown-signal.ts';
export type { Service } from './runtime/runtime.ts';
export { currentContext, withContext } from './telemetry/ambient.ts';
export type { ContextOption, ContextValues } from './task/context-headers.ts';
export { currentTask } from './worker/context.ts';
export type { TaskContext } from './worker/context.ts';
export type { ScheduleSlot } from './task/schedule-headers.ts';
export type {
  Handler,
  HandlerFunction,
  HandlerMode,
  HandlerOptions,
  RetryOptions,
} from './worker/handler.ts';
export { bury, discard, retryIn } from './task/verdict.ts';
export type { Verdict } from './task/verdict.ts';
export type { EventListener, EventListeners, EventMap, EventName } from './telemetry/events.ts';
export type { Logger, LogLevel, LogSettings } from './telemetry/logger.ts';
export {
  AdmissionRejectedError,
  ConfigError,
  InvariantError,
  isOutlastError,
  OutcomeError,
  OutlastError,
  OwnershipError,
  RejectedTaskError,
  UnavailableError,
  UsageError,
} from './errors/error.ts';
export type { ErrorCode, ErrorFields } from './errors/codes.ts';
