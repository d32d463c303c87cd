import type { WireError } from '../errors/wire-error.ts';
import type { RoomLogLine } from '../worker/room-log.ts';
import type { FromRoom } from '../worker/room.ts';
import type { HandlerSource } from './load-handlers.ts';

/** What a room is told before it starts: plain data, for it may be another process. */
export interface RoomSpec {
  readonly handlers: HandlerSource;
  /** The process of the worker: a room outlives it by moments only. */
  readonly parentPid: number;
}

/** Tells a process that it is a room, and which; a thread that it is one. */
export const ROOM_ENV = 'OUTLAST_ROOM_SPEC';

/** Everything a room says: about itself, and about the run in it. */
export type RoomMessage =
  | { readonly kind: 'ready'; readonly tasks: readonly string[] }
  | { readonly kind: 'unloadable'; readonly error: WireError }
  /** An error that nobody caught, just before it ends the room. */
  | { readonly kind: 'dying'; readonly error: WireError }
  | { readonly kind: 'log'; readonly line: RoomLogLine }
  | FromRoom;
