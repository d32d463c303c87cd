/** Contracts, for packages that every side imports. No Node built-in is loaded from here. */
export { task } from './define-task.ts';
export type {
  Call,
  InputOf,
  ParsedOf,
  ResultOf,
  ReturnedOf,
  Task,
  TaskOptions,
  TaskShape,
} from './define-task.ts';
export type { Duration } from './duration.ts';
export type { SendOptions } from './define-task.ts';
export type { StandardSchema } from './standard-schema.ts';
export { unchecked } from './standard-schema.ts';
