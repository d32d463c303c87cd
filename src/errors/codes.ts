/**
 * Every code an Outlast error can carry, with its family and the fields that come with it.
 * `docs/reference/errors.md` lists the same codes; a test compares the two in both directions.
 */
export interface ErrorFields {
  // ConfigError: fix the configuration, never retry.
  readonly ERR_UNKNOWN_OPTION: { readonly option: string; readonly nearest: string | null };
  readonly ERR_OPTION_RANGE: { readonly option: string };
  readonly ERR_OPTION_UNIT: { readonly option: string };
  readonly ERR_OPTIONS_CONFLICT: { readonly options: readonly string[] };
  readonly ERR_CONFIG_LOAD: { readonly file: string };
  readonly ERR_CONFIG_TIER: { readonly option: string };
  readonly ERR_DRIVER_MISSING: { readonly install: string };
  readonly ERR_TASK_DUPLICATE: { readonly task: string };
  readonly ERR_HANDLER_NOT_LOADABLE: {
    readonly file: string;
    /** The line where it threw, in whichever file that is. */
    readonly line?: number;
    readonly traceback?: string;
  };
  readonly ERR_NO_HANDLERS: { readonly tasks: readonly string[] };
  readonly ERR_PARTS_MISSING: { readonly file: string };
  readonly ERR_VERSION_UNREACHABLE: { readonly task: string; readonly version: number };
  readonly ERR_SCHEMA_MISSING: Record<never, never>;
  readonly ERR_SCHEMA_NEWER: { readonly found: number; readonly known: number };
  readonly ERR_DATABASE_MISMATCH: { readonly adapter: string; readonly configured: string };
  readonly ERR_DATABASE_SETTING: { readonly setting: string; readonly value: string };
  readonly ERR_FOLDER_HELD: { readonly folder: string; readonly pid: number };
  // UsageError: fix the call, never retry.
  readonly ERR_NOT_IN_TRANSACTION: Record<never, never>;
  readonly ERR_INPUT_INVALID: { readonly task: string; readonly issues: readonly InputIssue[] };
  readonly ERR_INPUT_NOT_JSON: { readonly path: string };
  readonly ERR_PAYLOAD_TOO_LARGE: { readonly bytes: number; readonly maxBytes: number };
  readonly ERR_NAME_UNSAFE: { readonly what: string };
  readonly ERR_TASK_UNKNOWN: { readonly task: string };
  readonly ERR_SCHEDULE_INVALID: { readonly schedule: string };
  readonly ERR_SCHEDULE_UNKNOWN: { readonly schedule: string };
  readonly ERR_SCHEDULE_OWNED: { readonly schedule: string };
  readonly ERR_IDEMPOTENCY_MISMATCH: { readonly key: string };
  readonly ERR_STEP_REUSED: { readonly step: string };
  readonly ERR_STEP_NESTED: { readonly step: string };
  readonly ERR_STEP_BLOCKED: { readonly call: string; readonly waitedMs: number };
  readonly ERR_RESULT_BEFORE_COMMIT: { readonly id: string };
  readonly ERR_CHECKPOINT_TOO_LARGE: { readonly bytes: number; readonly maxBytes: number };
  readonly ERR_SIGNING_KEYS_WITHHELD: Record<never, never>;
  readonly ERR_TASKS_LEFT: {
    /** How many of each kind: `outboxRows`, `tasks`, `deadLetters`, `followUps`, `workers`, `relays`. */
    readonly left: object;
  };
  readonly ERR_CLOSED: Record<never, never>;
  // AdmissionRejectedError: wait that long, then ask again.
  readonly ERR_ADMISSION_REJECTED: {
    /** The limit that is reached: `tenant:a`, `queue:billing`, `task:shop.charge:17`. */
    readonly key: string;
    /** Spread, so that tasks that were refused together do not return together. */
    readonly retryAfterMs: number;
  };
  // OutcomeError: what `result()` found.
  readonly ERR_TASK_FAILED: {
    readonly id: string;
    readonly type: string;
    readonly traceback: string;
  };
  readonly ERR_TASK_DISCARDED: { readonly id: string };
  readonly ERR_TASK_CANCELLED: { readonly id: string };
  readonly ERR_TASK_EXPIRED: { readonly id: string };
  readonly ERR_RESULT_TIMEOUT: { readonly id: string; readonly state: string };
  readonly ERR_RESULT_GONE: { readonly id: string };
  readonly ERR_RESULT_INVALID: { readonly id: string; readonly issues: readonly InputIssue[] };
  // UnavailableError: try again later.
  readonly ERR_STORE_UNAVAILABLE: Record<never, never>;
  readonly ERR_BROKER_UNAVAILABLE: {
    readonly scope: 'message' | 'channel' | 'connection';
    /** True: it stays so until an operator changes the configuration or the server. */
    readonly isPermanent?: boolean;
  };
  readonly ERR_UNROUTABLE: { readonly queue: string };
  // OwnershipError: stop and write nothing.
  readonly ERR_LEASE_LOST: { readonly id: string };
  readonly ERR_CLAIM_LOST: { readonly token: string };
  readonly ERR_FENCE_STALE: { readonly id: string; readonly epoch: number };
  // RejectedTaskError: the reason of a dead letter.
  readonly ERR_UNDECODABLE: { readonly id: string };
  readonly ERR_DIGEST: { readonly id: string };
  readonly ERR_MESSAGE_TOO_LARGE: { readonly id: string };
  readonly ERR_MIGRATION_FAILED: { readonly task: string; readonly version: number };
  readonly ERR_ATTEMPTS_SPENT: { readonly id: string };
  readonly ERR_RESURRECTIONS_SPENT: { readonly id: string };
  readonly ERR_CHORD_FAILED: { readonly id: string };
  readonly ERR_CHORD_UNCOUNTED: { readonly id: string };
  readonly ERR_FOLLOW_UPS_TOO_LARGE: { readonly followUps: number; readonly bytes: number };
  readonly ERR_FOLLOW_UP_UNSENT: { readonly id: string };
  readonly ERR_DESTINATION_REFUSED: { readonly destination: string };
  readonly ERR_TIMEOUT: { readonly id: string; readonly timeoutMs: number };
  // InvariantError: a bug in Outlast.
  readonly ERR_INVARIANT: Record<never, never>;
}

/** Every code that an error of Outlast may have. */
export type ErrorCode = keyof ErrorFields;

/** One issue of a schema, with the path to the value it is about. */
export interface InputIssue {
  readonly path: string;
  readonly message: string;
}

/** The families, named by what may be done about them. */
export type ErrorFamily =
  | 'ConfigError'
  | 'UsageError'
  | 'AdmissionRejectedError'
  | 'OutcomeError'
  | 'UnavailableError'
  | 'OwnershipError'
  | 'RejectedTaskError'
  | 'InvariantError';

export const ERROR_FAMILY: Readonly<Record<ErrorCode, ErrorFamily>> = Object.freeze({
  ERR_UNKNOWN_OPTION: 'ConfigError',
  ERR_OPTION_RANGE: 'ConfigError',
  ERR_OPTION_UNIT: 'ConfigError',
  ERR_OPTIONS_CONFLICT: 'ConfigError',
  ERR_CONFIG_LOAD: 'ConfigError',
  ERR_CONFIG_TIER: 'ConfigError',
  ERR_DRIVER_MISSING: 'ConfigError',
  ERR_TASK_DUPLICATE: 'ConfigError',
  ERR_HANDLER_NOT_LOADABLE: 'ConfigError',
  ERR_NO_HANDLERS: 'ConfigError',
  ERR_PARTS_MISSING: 'ConfigError',
  ERR_VERSION_UNREACHABLE: 'ConfigError',
  ERR_SCHEMA_MISSING: 'ConfigError',
  ERR_SCHEMA_NEWER: 'ConfigError',
  ERR_DATABASE_MISMATCH: 'ConfigError',
  ERR_DATABASE_SETTING: 'ConfigError',
  ERR_FOLDER_HELD: 'ConfigError',
  ERR_NOT_IN_TRANSACTION: 'UsageError',
  ERR_INPUT_INVALID: 'UsageError',
  ERR_INPUT_NOT_JSON: 'UsageError',
  ERR_PAYLOAD_TOO_LARGE: 'UsageError',
  ERR_NAME_UNSAFE: 'UsageError',
  ERR_TASK_UNKNOWN: 'UsageError',
  ERR_SCHEDULE_INVALID: 'UsageError',
  ERR_SCHEDULE_UNKNOWN: 'UsageError',
  ERR_SCHEDULE_OWNED: 'UsageError',
  ERR_IDEMPOTENCY_MISMATCH: 'UsageError',
  ERR_STEP_REUSED: 'UsageError',
  ERR_STEP_NESTED: 'UsageError',
  ERR_STEP_BLOCKED: 'UsageError',
  ERR_RESULT_BEFORE_COMMIT: 'UsageError',
  ERR_CHECKPOINT_TOO_LARGE: 'UsageError',
  ERR_SIGNING_KEYS_WITHHELD: 'UsageError',
  ERR_TASKS_LEFT: 'UsageError',
  ERR_CLOSED: 'UsageError',
  ERR_ADMISSION_REJECTED: 'AdmissionRejectedError',
  ERR_TASK_FAILED: 'OutcomeError',
  ERR_TASK_DISCARDED: 'OutcomeError',
  ERR_TASK_CANCELLED: 'OutcomeError',
  ERR_TASK_EXPIRED: 'OutcomeError',
  ERR_RESULT_TIMEOUT: 'OutcomeError',
  ERR_RESULT_GONE: 'OutcomeError',
  ERR_RESULT_INVALID: 'OutcomeError',
  ERR_STORE_UNAVAILABLE: 'UnavailableError',
  ERR_BROKER_UNAVAILABLE: 'UnavailableError',
  ERR_UNROUTABLE: 'UnavailableError',
  ERR_LEASE_LOST: 'OwnershipError',
  ERR_CLAIM_LOST: 'OwnershipError',
  ERR_FENCE_STALE: 'OwnershipError',
  ERR_UNDECODABLE: 'RejectedTaskError',
  ERR_DIGEST: 'RejectedTaskError',
  ERR_MESSAGE_TOO_LARGE: 'RejectedTaskError',
  ERR_MIGRATION_FAILED: 'RejectedTaskError',
  ERR_ATTEMPTS_SPENT: 'RejectedTaskError',
  ERR_RESURRECTIONS_SPENT: 'RejectedTaskError',
  ERR_CHORD_FAILED: 'RejectedTaskError',
  ERR_CHORD_UNCOUNTED: 'RejectedTaskError',
  ERR_FOLLOW_UPS_TOO_LARGE: 'RejectedTaskError',
  ERR_FOLLOW_UP_UNSENT: 'RejectedTaskError',
  ERR_DESTINATION_REFUSED: 'RejectedTaskError',
  ERR_TIMEOUT: 'RejectedTaskError',
  ERR_INVARIANT: 'InvariantError',
});
