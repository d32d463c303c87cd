import { encodeError } from '../errors/wire-error.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { readOptions } from '../task/read-options.ts';
import type { EffectKey } from './door.ts';
import { expiredMeanwhile } from './expired-meanwhile.ts';
import type { Handler } from './handler.ts';
import { unpackError } from './pack-error.ts';
import type { FromRoom, PackedSettlement, Room, RoomListener, RoomMode, Rooms } from './room.ts';
import type { RunLedger } from './run-scope.ts';
import type { RunStop } from './run-stop.ts';
import { crashed, failed, timedOut, type Circumstances, type Settlement } from './settlement.ts';

/** Between the signal and the kill: time to roll back, to close files, and to end by oneself. */
const KILL_GRACE_MS = 500;
/** Before a task is given back because no room could be made: whoever takes it would try again at once. */
const NO_ROOM_MS = 1_000;
/** A thread in native code ends when that returns. Its run is settled all the same: it can write nothing more. */
const KILL_PATIENCE_MS = 5_000;

export interface RoomRunStart {
  readonly task: BegunTask;
  readonly handler: Handler;
  readonly mode: RoomMode;
  readonly stop: RunStop;
}

export interface RoomRunDeps {
  readonly rooms: Rooms;
  readonly ledger: RunLedger;
  readonly runtime: Runtime;
  readonly effect?: EffectKey | null;
  readonly isLeaseOver?: () => boolean;
}

/**
 * Runs one task in a thread or process of its own. The room decides how the run ended, with the handler's own schemas
 * and its own `retryIf`; the worker decides only about rooms that do not answer: killed at a timeout is a failed attempt,
 * killed on a stop is given back or dropped, and a room that ended by itself is a crash of the task.
 */
export async function runInRoom(start: RoomRunStart, deps: RoomRunDeps): Promise<Settlement> {
  const { task, stop } = start;
  const { clock } = deps.runtime;
  const askedAt = clock.monotonic();
  // What has not begun is given back: another worker may have a room for it.
  const room = await enter(start, deps);
  if (room === null) return stopped(stop);
  try {
    const isOver = stop.reason !== null || deps.isLeaseOver?.() === true;
    const isLate = isOver || expiredMeanwhile(task, askedAt, clock);
    return isLate ? stopped(stop) : await new RoomRun(start, room, deps).run();
  } finally {
    deps.rooms.leave(room);
  }
}

/** A room that cannot be made is no fault of the task: the worker had one when it started. */
async function enter(start: RoomRunStart, deps: RoomRunDeps): Promise<Room | null> {
  const { task, mode, stop } = start;
  const { clock, log } = deps.runtime;
  try {
    return await deps.rooms.enter(mode, stop);
  } catch (error) {
    log.error({ error, task: task.id, mode }, 'no room could be made; the task is given back');
    await sleep(clock, NO_ROOM_MS, stop.signal);
    return null;
  }
}

/** A run that ends before its handler: given back, unless it is known to be another's. */
export function stopped(stop: RunStop): Settlement {
  return { kind: stop.reason === 'lost' ? 'drop' : 'release' };
}

export function circumstancesOf(task: BegunTask, { clock, random }: Runtime): Circumstances {
  const { deadlineMs } = readOptions(task.envelope);
  return {
    isPastDeadline: () => deadlineMs !== undefined && deadlineMs <= clock.now(),
    random: () => random.next(),
  };
}

/** Bytes of their own: a driver's are windows into a larger buffer, and the whole of it would travel. */
function tight(task: BegunTask): BegunTask {
  const { envelope, checkpoint } = task;
  const [body, options] = [new Uint8Array(envelope.body), new Uint8Array(envelope.options)];
  return {
    ...task,
    envelope: { ...envelope, body, options },
    checkpoint: checkpoint === null ? null : new Uint8Array(checkpoint),
  };
}

/** What a room asks the ledger, through its worker. */
type Question = Extract<FromRoom, { readonly kind: 'checkpoint' | 'lift' }>;

/** The worker's end of one run in a room. */
class RoomRun {
  readonly #start: RoomRunStart;
  readonly #room: Room;
  readonly #deps: RoomRunDeps;
  readonly #undo: (() => void)[] = [];
  #end: (settlement: Settlement) => void = () => undefined;
  #hasBegun = false;
  #isKilling = false;

  constructor(start: RoomRunStart, room: Room, deps: RoomRunDeps) {
    this.#start = start;
    this.#room = room;
    this.#deps = deps;
  }

  async run(): Promise<Settlement> {
    const { task, stop } = this.#start;
    const ending = new Promise<Settlement>(resolve => {
      this.#end = resolve;
    });
    this.#room.listen(message => this.#hear(message));
    this.#room.post({ kind: 'run', task: tight(task), effect: this.#deps.effect ?? null });
    this.#follow(stop.draining, () => this.#room.post({ kind: 'drain' }));
    const end = (): void => this.#stop();
    stop.onStop(end);
    this.#undo.push(() => stop.offStop(end));
    this.#startTimers();
    try {
      return await ending;
    } finally {
      for (const undo of this.#undo) undo();
      this.#room.listen(null);
    }
  }

  #follow(signal: AbortSignal, fn: () => void): void {
    if (signal.aborted) return fn();
    signal.addEventListener('abort', fn, { once: true });
    this.#undo.push(() => signal.removeEventListener('abort', fn));
  }

  #after(ms: number, fn: () => void): void {
    this.#undo.push(this.#deps.runtime.clock.timer(ms, fn));
  }

  #hear(message: Parameters<RoomListener>[0]): void {
    if (this.#isKilling) return;
    switch (message.kind) {
      case 'ended':
        return this.#crash(message.how);
      case 'begun':
        this.#hasBegun = true;
        return;
      case 'checkpoint':
      case 'lift':
        return void this.#ask(message);
      case 'settled':
        return this.#end(this.#settled(message.settlement));
    }
  }

  /** The room's word, unless the worker knows better: then it belongs to somebody else, or is given back. */
  #settled(packed: PackedSettlement): Settlement {
    const { stop } = this.#start;
    if (stop.reason !== null && packed.kind !== 'commit') return stopped(stop);
    return packed.kind === 'fail' ? { ...packed, cause: unpackError(packed.cause) } : packed;
  }

  async #ask(message: Question): Promise<void> {
    const { call } = message;
    const { ledger } = this.#deps;
    const { task } = this.#start;
    try {
      if (message.kind === 'lift') {
        const reply = await ledger.lift(task, message.above);
        return this.#room.post({ kind: 'lifted', call, reply });
      }
      const status = await ledger.checkpoint(task, message.seq, message.data);
      this.#room.post({ kind: 'kept', call, status });
    } catch (error) {
      this.#room.post({ kind: 'not-asked', call, error: encodeError(error) });
    }
  }

  #crash(how: Error): void {
    const { task, handler } = this.#start;
    this.#deps.runtime.log.warn({ task: task.id, error: how }, 'a room ended under its task');
    // It was gone before it had heard of the task, which cannot be why.
    this.#end(this.#hasBegun ? crashed(handler, task, how) : { kind: 'release' });
  }

  #stop(): void {
    const { stop } = this.#start;
    this.#room.post({ kind: 'stop', reason: stop.reason ?? 'release' });
    this.#after(KILL_GRACE_MS, () => void this.#kill('stopped', () => stopped(stop)));
  }

  /** The room has the same timers and fires `ctx.signal`; here they are for rooms that do not heed it. */
  #startTimers(): void {
    const { task, handler } = this.#start;
    const { clock } = this.#deps.runtime;
    const { timeoutMs, deadlineMs } = readOptions(task.envelope);
    const expire = (ms: number, what: string): void =>
      this.#after(ms + KILL_GRACE_MS, () => {
        const cause = timedOut(task, ms, what);
        const circumstances = circumstancesOf(task, this.#deps.runtime);
        void this.#kill(what, () => failed(handler, task, circumstances, { cause, askedMs: null }));
      });
    if (timeoutMs !== undefined) expire(timeoutMs, 'its timeout');
    if (deadlineMs !== undefined) expire(deadlineMs - clock.now(), 'its deadline');
  }

  async #kill(why: string, settlement: () => Settlement): Promise<void> {
    if (this.#isKilling) return;
    this.#isKilling = true;
    const { clock, log } = this.#deps.runtime;
    const { task, mode } = this.#start;
    log.warn({ task: task.id, mode, why }, 'a handler did not heed its signal; its room is killed');
    // Settled when it is gone: the next run must not meet it.
    const gone = new AbortController();
    const killing = this.#room.kill().then(() => gone.abort());
    await Promise.race([killing, sleep(clock, KILL_PATIENCE_MS, gone.signal)]);
    this.#end(settlement());
  }
}
