import { outlastError } from '../errors/error.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Room, RoomMode, Rooms, StopSignals } from './room.ts';

export interface RoomPoolDeps {
  readonly runtime: Pick<Runtime, 'log' | 'clock'>;
  /** Handlers that may run in rooms at the same time. */
  readonly limit: number;
  /** Makes a room and waits until it has loaded its handlers. */
  readonly open: (mode: RoomMode) => Promise<Room>;
  /** Whether it has grown too large to be used again. */
  readonly isWornOut: (room: Room) => boolean;
}

/** A thread in native code ends when that returns; nobody waits for it for ever. */
const CLOSE_PATIENCE_MS = 5_000;

interface Waiting {
  readonly admit: () => void;
}

/**
 * The rooms of one worker. Whoever finds no place waits, and may give up waiting; whoever has one gets a room that was
 * used before, or a new one. A room that was killed, ended or has grown too large is not used again.
 */
export class RoomPool implements Rooms {
  readonly #deps: RoomPoolDeps;
  readonly #idle: Room[] = [];
  readonly #all = new Set<Room>();
  readonly #waiting = new Set<Waiting>();
  #busy = 0;
  #isClosed = false;

  constructor(deps: RoomPoolDeps) {
    this.#deps = deps;
  }

  /** Opens one room of this mode ahead of time and makes sure that it has these handlers. */
  async prepare(mode: RoomMode, tasks: readonly string[]): Promise<void> {
    const room = await this.#open(mode);
    const missing = tasks.find(task => !room.tasks.has(task));
    if (missing === undefined) return void this.#idle.push(room);
    await room.kill();
    throw notFound(missing, mode);
  }

  async enter(mode: RoomMode, stop: StopSignals): Promise<Room | null> {
    if (!(await this.#place(stop))) return null;
    try {
      return this.#takeIdle(mode) ?? (await this.#open(mode));
    } catch (error) {
      this.#freePlace();
      throw error;
    }
  }

  leave(room: Room): void {
    if (room.isOpen && !this.#isClosed && !this.#deps.isWornOut(room)) this.#idle.push(room);
    else void room.kill();
    this.#freePlace();
  }

  /** Ends every room; what still runs in one is killed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const gone = new AbortController();
    const killing = Promise.all([...this.#all].map(room => room.kill())).then(() => gone.abort());
    await Promise.race([killing, sleep(this.#deps.runtime.clock, CLOSE_PATIENCE_MS, gone.signal)]);
  }

  #takeIdle(mode: RoomMode): Room | undefined {
    const at = this.#idle.findLastIndex(room => room.mode === mode);
    return at === -1 ? undefined : this.#idle.splice(at, 1)[0];
  }

  async #open(mode: RoomMode): Promise<Room> {
    const room = await this.#deps.open(mode);
    this.#all.add(room);
    void room.ended.then(how => {
      this.#all.delete(room);
      const at = this.#idle.indexOf(room);
      if (at === -1) return;
      this.#idle.splice(at, 1);
      if (!this.#isClosed) this.#deps.runtime.log.warn({ error: how }, 'an idle room ended');
    });
    // Somebody may have closed the pool while it was made.
    if (this.#isClosed) await room.kill();
    return room;
  }

  /** True: there is a place. False: the run was stopped, or its worker drains, before one was free. */
  #place(stop: StopSignals): Promise<boolean> {
    const signals = [stop.signal, stop.draining];
    if (signals.some(signal => signal.aborted)) return Promise.resolve(false);
    if (this.#busy < this.#deps.limit) {
      this.#busy += 1;
      return Promise.resolve(true);
    }
    return new Promise(resolve => {
      const end = (isAdmitted: boolean): void => {
        this.#waiting.delete(waiting);
        for (const signal of signals) signal.removeEventListener('abort', giveUp);
        resolve(isAdmitted);
      };
      const giveUp = (): void => end(false);
      const waiting: Waiting = { admit: () => end(true) };
      this.#waiting.add(waiting);
      for (const signal of signals) signal.addEventListener('abort', giveUp, { once: true });
    });
  }

  /** The place goes to whoever has waited longest, or is free. */
  #freePlace(): void {
    const [next] = this.#waiting;
    if (next) next.admit();
    else this.#busy -= 1;
  }
}

function notFound(task: string, mode: RoomMode): Error {
  return outlastError('ERR_HANDLER_NOT_LOADABLE', {
    message: `the handler of ${task} has mode '${mode}', and no module named in \`tasks\` exports it`,
    hint: `Export it from a module that \`tasks\` of the configuration names: a ${mode} loads its handlers itself.`,
    fields: { file: '' },
  });
}
