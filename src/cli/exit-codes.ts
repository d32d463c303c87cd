import { ERROR_FAMILY } from '../errors/codes.ts';
import { isDenied } from '../errors/denied.ts';
import { isOutlastError } from '../errors/error.ts';

/** The exit codes of all commands. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  unreachable: 5,
  unhealthy: 6,
  partly: 7,
  permission: 8,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_HELP = `
Exit codes:
  0 done  1 failed  2 usage  3 not found  4 conflict  5 unreachable  6 unhealthy  7 partly, not finished yet  8 permission
  130 ended by SIGINT  143 ended by SIGTERM`;

export function exitCodeOf(error: unknown): ExitCode {
  if (!isOutlastError(error)) return isDenied(error) ? EXIT.permission : EXIT.failed;
  if (error.code === 'ERR_FOLDER_HELD' || error.code === 'ERR_TASKS_LEFT') return EXIT.conflict;
  if (error.code === 'ERR_SCHEMA_MISSING' || error.code === 'ERR_SCHEMA_NEWER') return EXIT.failed;
  switch (ERROR_FAMILY[error.code]) {
    case 'ConfigError':
    case 'UsageError':
      return EXIT.usage;
    case 'UnavailableError':
      return EXIT.unreachable;
    case 'OwnershipError':
    case 'AdmissionRejectedError':
      return EXIT.conflict;
    case 'OutcomeError':
    case 'RejectedTaskError':
    case 'InvariantError':
      return EXIT.failed;
  }
}
