import type { WireError } from '../../errors/wire-error.ts';
import type { BegunTask, RaiseReply, StepStatus } from '../../ledger/ledger.ts';
import type { EffectKey } from '../effects/door.ts';
import type { HandlerMode } from '../handler.ts';
import type { RunStop, Settlement, StopReason } from '../run/settlement.ts';

/** A separate thread or process, in which one handler runs at a time. */
export interface Isolate {
  readonly mode: IsolateMode;
  /** The tasks whose handlers it has loaded. */
  readonly tasks: ReadonlySet<string>;
  /** Memory of a process as reported after its last run; 0 for a thread, whose memory is its worker's. */
  readonly rssBytes: number;
  /** Whether it can still receive messages. */
  readonly isOpen: boolean;
  /** Resolves when it has ended, with the cause. */
  readonly ended: Promise<Error>;
  post(message: ToIsolate): void;
  /** One listener at a time, as there is one run at a time. Null: removes it. */
  listen(fn: IsolateListener | null): void;
  /** Ends it for certain; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Receives the messages of an isolate, and last that it has ended; at once if it had ended before. */
export type IsolateListener = (
  message: FromIsolate | { readonly kind: 'ended'; readonly how: Error },
) => void;

export type IsolateMode = Exclude<HandlerMode, 'inline'>;

export type StopSignals = Pick<RunStop, 'signal' | 'draining'>;

/** Hands out isolates. */
export interface Isolates {
  /** An isolate for one run, as soon as one is free; null when the run was stopped before that. */
  enter(mode: IsolateMode, stop: StopSignals): Promise<Isolate | null>;
  /** The run is over: another run may use the isolate, unless it has ended. */
  leave(isolate: Isolate): void;
}

/** Messages from a worker to an isolate. */
export type ToIsolate =
  | {
      readonly kind: 'run';
      readonly task: BegunTask;
      readonly effect: EffectKey | null;
      /** Where its trace is; null: nothing is traced. */
      readonly trace: Readonly<Record<string, string>> | null;
    }
  | { readonly kind: 'stop'; readonly reason: StopReason }
  | { readonly kind: 'drain' }
  | { readonly kind: 'kept'; readonly call: number; readonly status: StepStatus }
  | { readonly kind: 'raised'; readonly call: number; readonly reply: RaiseReply }
  | { readonly kind: 'not-asked'; readonly call: number; readonly error: WireError };

/** Messages from an isolate about the run in it. */
export type FromIsolate =
  /** The task has arrived: if the isolate ends from here on, the task may be the cause. */
  | { readonly kind: 'begun' }
  | {
      readonly kind: 'checkpoint';
      readonly call: number;
      readonly seq: number;
      readonly data: Uint8Array;
    }
  | { readonly kind: 'raise'; readonly call: number; readonly above: number }
  /** Sent when the handler itself has ended, so nothing of it continues in the isolate. */
  | {
      readonly kind: 'settled';
      readonly settlement: PackedSettlement;
      /** Memory of the process, for isolates with a memory limit. */
      readonly rssBytes: number;
    };

/** A settlement whose cause can be sent between threads and processes. */
export type PackedSettlement =
  | Exclude<Settlement, { readonly kind: 'fail' }>
  | (Omit<Extract<Settlement, { readonly kind: 'fail' }>, 'cause'> & {
      readonly cause: PackedError;
    });

/** An error with the fields that logs and listeners need. */
export interface PackedError extends WireError {
  readonly stack: string;
  readonly cause: PackedError | null;
}
