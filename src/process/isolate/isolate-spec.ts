import type { WireError } from '../../errors/wire-error.ts';
import type { IsolateLogLine } from '../../worker/isolate/isolate-log.ts';
import type { FromIsolate } from '../../worker/isolate/isolate.ts';
import type { HandlerSource } from '../load-handlers.ts';

/** The start parameters of an isolate: plain data, because it may be another process. */
export interface IsolateSpec {
  readonly handlers: HandlerSource;
  /** The process of the worker: an isolate outlives it by moments only. */
  readonly parentPid: number;
}

/** Marks a process as an isolate and holds its spec; marks a thread as one. */
export const ISOLATE_ENV = 'OUTLAST_ISOLATE_SPEC';

/** All messages of an isolate: about itself, and about the run in it. */
export type IsolateMessage =
  | { readonly kind: 'ready'; readonly tasks: readonly string[] }
  | { readonly kind: 'unloadable'; readonly error: WireError }
  /** An uncaught error, just before it ends the isolate. */
  | { readonly kind: 'dying'; readonly error: WireError }
  | { readonly kind: 'log'; readonly line: IsolateLogLine }
  | FromIsolate;
