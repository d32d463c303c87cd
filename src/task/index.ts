/** Contracts, for packages that every side imports. No Node built-in is loaded from here. */
export { task } from './define-task.ts';
export { chain, chord, group } from './workflow.ts';
export type {
  After,
  Call,
  CeleryOptions,
  ChainCall,
  ChainStep,
  ChordCall,
  GroupCall,
  GroupStep,
  InputOf,
  ParsedOf,
  ResultOf,
  ReturnedOf,
  Step,
  Task,
  TaskCall,
  TaskOptions,
  TaskShape,
} from './define-task.ts';
export type { Duration } from './duration.ts';
export type { AdmissionRuleOptions, RateOptions } from './admission-rule.ts';
export type { Permit, SendOptions } from './define-task.ts';
export { python } from './python-value.ts';
export type { PythonValue } from './python-value.ts';
export type { Redactor } from './redact.ts';
export type { StandardSchema } from './standard-schema.ts';
export { unchecked } from './standard-schema.ts';
