import type { WireError } from '../errors/wire-error.ts';
import type { BegunTask, LiftReply, StepStatus } from '../ledger/ledger.ts';
import type { EffectKey } from './door.ts';
import type { HandlerMode } from './handler.ts';
import type { RunStop, StopReason } from './run-stop.ts';
import type { Settlement } from './settlement.ts';

/** A thread or a process of its own, in which one handler runs at a time. */
export interface Room {
  readonly mode: RoomMode;
  /** The tasks whose handlers it has loaded. */
  readonly tasks: ReadonlySet<string>;
  /** Memory of a process as it told after its last run; 0 for a thread, whose memory is its worker's. */
  readonly rssBytes: number;
  /** Whether a message can still be said to it. */
  readonly isOpen: boolean;
  /** Resolves when it has ended, with the way it did. */
  readonly ended: Promise<Error>;
  post(message: ToRoom): void;
  /** One listener at a time, as there is one run at a time. Null: nobody is interested. */
  listen(fn: RoomListener | null): void;
  /** Ends it for certain; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Told what a room says, and last that it has ended; at once where it had. */
export type RoomListener = (
  message: FromRoom | { readonly kind: 'ended'; readonly how: Error },
) => void;

export type RoomMode = Exclude<HandlerMode, 'inline'>;

export type StopSignals = Pick<RunStop, 'signal' | 'draining'>;

/** Hands out rooms. */
export interface Rooms {
  /** A room for one run, sooner or later; null when the run was stopped before one was free. */
  enter(mode: RoomMode, stop: StopSignals): Promise<Room | null>;
  /** The run is over: the room is another's, unless it has ended. */
  leave(room: Room): void;
}

/** What a worker says to a room. */
export type ToRoom =
  | { readonly kind: 'run'; readonly task: BegunTask; readonly effect: EffectKey | null }
  | { readonly kind: 'stop'; readonly reason: StopReason }
  | { readonly kind: 'drain' }
  | { readonly kind: 'kept'; readonly call: number; readonly status: StepStatus }
  | { readonly kind: 'lifted'; readonly call: number; readonly reply: LiftReply }
  | { readonly kind: 'not-asked'; readonly call: number; readonly error: WireError };

/** What a room says about the run in it. */
export type FromRoom =
  /** The task has arrived: if the room ends from here on, the task may be why. */
  | { readonly kind: 'begun' }
  | {
      readonly kind: 'checkpoint';
      readonly call: number;
      readonly seq: number;
      readonly data: Uint8Array;
    }
  | { readonly kind: 'lift'; readonly call: number; readonly above: number }
  /** Said when the handler itself has ended, so nothing of it goes on in the room. */
  | {
      readonly kind: 'settled';
      readonly settlement: PackedSettlement;
      /** Memory of the process, for those who must not grow. */
      readonly rssBytes: number;
    };

/** A settlement whose cause can travel. */
export type PackedSettlement =
  | Exclude<Settlement, { readonly kind: 'fail' }>
  | (Omit<Extract<Settlement, { readonly kind: 'fail' }>, 'cause'> & {
      readonly cause: PackedError;
    });

/** An error with what logs and listeners want of it. */
export interface PackedError extends WireError {
  readonly stack: string;
  readonly cause: PackedError | null;
}
