import type { WireError } from '../errors/wire-error.ts';
import type { LoaderChoice } from '../config/load-config.ts';
import type { WorkerOptions } from '../config/worker-options.ts';
import type { Health } from './health.ts';
import type { LogLevel } from '../telemetry/logger.ts';

/** What a supervisor tells its child; it travels as JSON in an environment variable. */
export interface WorkerSpec {
  /** The name of the process in the ledger, drawn by the supervisor before the child lives. */
  readonly process: string;
  /** The config file; null: defaults. */
  readonly configFile: string | null;
  readonly loader: LoaderChoice;
  /** Module files whose exported handlers are run besides those of the config. */
  readonly modules: readonly string[];
  readonly worker: WorkerOptions;
  readonly log: { readonly level: LogLevel; readonly json: boolean };
}

export const SPEC_ENV = 'OUTLAST_CHILD_SPEC';

/** What travels over the channel between the two. `retire`: finish what you have, however long it takes, and exit. */
export type ToChild = 'drain' | 'retire';

/**
 * `loaded`: config and handlers are fine. `unloadable`: they are not, and another start would change nothing. `worn`: it has
 * reached a limit and wants to be replaced. `dismissed`: somebody has asked it, through the broker, to end; it drains, and
 * nobody is to take its place. `pulse`: how it is, once a second.
 */
export type FromChild =
  | { readonly kind: 'loaded' | 'dismissed' }
  | { readonly kind: 'worn'; readonly why: string }
  | { readonly kind: 'pulse'; readonly health: Health }
  | { readonly kind: 'unloadable'; readonly error: WireError };
