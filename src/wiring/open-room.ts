import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker as Thread } from 'node:worker_threads';
import { outlastError } from '../errors/error.ts';
import { decodeError } from '../errors/wire-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import { writeRoomLine } from '../worker/room-log.ts';
import type { Room, RoomListener, RoomMode, ToRoom } from '../worker/room.ts';
import { ROOM_ENV, type RoomMessage, type RoomSpec } from './room-spec.ts';

/** A thread or a process, as far as a room needs it. */
interface Vessel {
  readonly post: (message: ToRoom) => void;
  readonly kill: () => void;
  onMessage(hear: (message: RoomMessage) => void): void;
  onEnd(end: (how: Error) => void): void;
}

/** Starts a room and waits until it has loaded its handlers. */
export async function openRoom(mode: RoomMode, spec: RoomSpec, log: Logger): Promise<Room> {
  const room = new OpenRoom(mode, mode === 'thread' ? startThread(spec) : startProcess(spec), log);
  try {
    await room.loaded;
    return room;
  } catch (error) {
    await room.kill();
    throw error;
  }
}

class OpenRoom implements Room {
  readonly mode: RoomMode;
  readonly ended: Promise<Error>;
  readonly loaded: Promise<void>;
  readonly #vessel: Vessel;
  readonly #log: Logger;
  #tasks: ReadonlySet<string> = new Set();
  #rssBytes = 0;
  #isOpen = true;
  #lastWords: Error | null = null;
  #hear: RoomListener | null = null;
  /** Null: it has not ended. */
  #how: Error | null = null;

  constructor(mode: RoomMode, vessel: Vessel, log: Logger) {
    this.mode = mode;
    this.#vessel = vessel;
    this.#log = log;
    this.ended = new Promise(resolve => {
      vessel.onEnd(how => {
        this.#isOpen = false;
        this.#how = this.#lastWords ?? how;
        this.#hear?.({ kind: 'ended', how: this.#how });
        resolve(this.#how);
      });
    });
    this.loaded = new Promise((resolve, reject) => {
      vessel.onMessage(message => this.#receive(message, resolve, reject));
      void this.ended.then(how => reject(notLoadable(mode, how)));
    });
    // Whoever opened it hears of it; after that it is settled.
    this.loaded.catch(() => undefined);
  }

  get tasks(): ReadonlySet<string> {
    return this.#tasks;
  }

  get rssBytes(): number {
    return this.#rssBytes;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  post(message: ToRoom): void {
    if (this.#isOpen) this.#vessel.post(message);
  }

  listen(fn: RoomListener | null): void {
    this.#hear = fn;
    if (this.#how !== null) fn?.({ kind: 'ended', how: this.#how });
  }

  async kill(): Promise<void> {
    if (this.#isOpen) {
      this.#isOpen = false;
      this.#vessel.kill();
    }
    await this.ended;
  }

  #receive(message: RoomMessage, resolve: () => void, reject: (error: Error) => void): void {
    switch (message.kind) {
      case 'ready':
        this.#tasks = new Set(message.tasks);
        return resolve();
      case 'unloadable':
        return reject(decodeError(message.error));
      case 'dying':
        this.#lastWords = decodeError(message.error);
        return;
      case 'log':
        return writeRoomLine(this.#log, message.line);
      case 'settled':
        this.#rssBytes = message.rssBytes;
        return this.#hear?.(message);
      case 'begun':
      case 'checkpoint':
      case 'lift':
        return this.#hear?.(message);
    }
  }
}

function startThread(spec: RoomSpec): Vessel {
  const url = new URL('./room-thread.js', import.meta.url);
  const thread = new Thread(url, { workerData: spec, env: { ...process.env, [ROOM_ENV]: '{}' } });
  let how: Error | null = null;
  thread.on('error', (error: Error) => {
    how = error;
  });
  return {
    post: message => thread.postMessage(message),
    kill: () => void thread.terminate(),
    onMessage: hear => void thread.on('message', hear),
    onEnd: end =>
      void thread.once('exit', code => end(how ?? new Error(`its thread ended with code ${code}`))),
  };
}

function startProcess(spec: RoomSpec): Vessel {
  const entry = fileURLToPath(new URL('./room-process.js', import.meta.url));
  const child = fork(entry, [], {
    env: { ...process.env, [ROOM_ENV]: JSON.stringify(spec) },
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  return {
    post: message => {
      if (child.connected) child.send(message, () => undefined);
    },
    kill: () => void child.kill('SIGKILL'),
    onMessage: hear => void child.on('message', message => hear(message as RoomMessage)),
    onEnd: end => {
      child.once('error', end);
      child.once('exit', (code, signal) =>
        end(new Error(`its process ended with ${signal ?? `code ${code}`}`)),
      );
    },
  };
}

function notLoadable(mode: RoomMode, how: Error): Error {
  return outlastError('ERR_HANDLER_NOT_LOADABLE', {
    message: `a ${mode} for handlers ended before it had loaded them: ${how.message}`,
    hint: 'Look at what the modules named in `tasks` do while they load.',
    fields: { file: '' },
    cause: how,
  });
}
