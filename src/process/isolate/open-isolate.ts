import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker as Thread } from 'node:worker_threads';
import { envForHandlers } from '../../config/signing.ts';
import { outlastError } from '../../errors/error.ts';
import { decodeError } from '../../errors/wire-error.ts';
import { sleep, type Clock } from '../../runtime/runtime.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { writeIsolateLine } from '../../worker/isolate/isolate-log.ts';
import type {
  Isolate,
  IsolateListener,
  IsolateMode,
  ToIsolate,
} from '../../worker/isolate/isolate.ts';
import { ownPart } from '../worker-spec.ts';
import { ISOLATE_ENV, type IsolateMessage, type IsolateSpec } from './isolate-spec.ts';

/** A thread or a process, as far as an isolate needs it. */
interface Channel {
  readonly post: (message: ToIsolate) => void;
  readonly kill: () => void;
  onMessage(listener: (message: IsolateMessage) => void): void;
  onEnd(end: (how: Error) => void): void;
}

export interface IsolateOpening {
  readonly log: Logger;
  readonly clock: Clock;
  readonly hasKeys: boolean;
}

/** Large applications load for long on a busy machine. A module that waits for a silent server would wait forever. */
const LOAD_TIMEOUT_MS = 60_000;
/** A thread in native code ends only when that code returns: it is left behind. */
const KILL_TIMEOUT_MS = 5_000;

/** Starts an isolate and waits until it has loaded its handlers. */
export async function openIsolate(
  mode: IsolateMode,
  spec: IsolateSpec,
  { log, clock, hasKeys }: IsolateOpening,
): Promise<Isolate> {
  const env = envForHandlers(process.env, hasKeys);
  const channel = mode === 'thread' ? startThread(spec, env) : startProcess(spec, env);
  const isolate = new OpenIsolate(mode, channel, log);
  try {
    if (!(await isWithin(clock, LOAD_TIMEOUT_MS, isolate.loaded))) throw loadsTooLong(mode);
    return isolate;
  } catch (error) {
    await isWithin(clock, KILL_TIMEOUT_MS, isolate.kill());
    throw error;
  }
}

/** False: it takes longer. */
async function isWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  const over = new AbortController();
  const late = sleep(clock, ms, over.signal).then(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    over.abort();
  }
}

class OpenIsolate implements Isolate {
  readonly mode: IsolateMode;
  readonly ended: Promise<Error>;
  readonly loaded: Promise<void>;
  readonly #channel: Channel;
  readonly #log: Logger;
  #tasks: ReadonlySet<string> = new Set();
  #rssBytes = 0;
  #isOpen = true;
  #lastError: Error | null = null;
  #listener: IsolateListener | null = null;
  /** Null: it has not ended. */
  #how: Error | null = null;

  constructor(mode: IsolateMode, channel: Channel, log: Logger) {
    this.mode = mode;
    this.#channel = channel;
    this.#log = log;
    this.ended = new Promise(resolve => {
      channel.onEnd(how => {
        this.#isOpen = false;
        this.#how = this.#lastError ?? how;
        this.#listener?.({ kind: 'ended', how: this.#how });
        resolve(this.#how);
      });
    });
    this.loaded = new Promise((resolve, reject) => {
      channel.onMessage(message => this.#receive(message, resolve, reject));
      void this.ended.then(how => reject(notLoadable(mode, how)));
    });
    // The code that opened it gets the error; after that it is settled.
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

  post(message: ToIsolate): void {
    if (this.#isOpen) this.#channel.post(message);
  }

  listen(fn: IsolateListener | null): void {
    this.#listener = fn;
    if (this.#how !== null) fn?.({ kind: 'ended', how: this.#how });
  }

  async kill(): Promise<void> {
    if (this.#isOpen) {
      this.#isOpen = false;
      this.#channel.kill();
    }
    await this.ended;
  }

  #receive(message: IsolateMessage, resolve: () => void, reject: (error: Error) => void): void {
    switch (message.kind) {
      case 'ready':
        this.#tasks = new Set(message.tasks);
        return resolve();
      case 'unloadable':
        return reject(decodeError(message.error));
      case 'dying':
        this.#lastError = decodeError(message.error);
        return;
      case 'log':
        return writeIsolateLine(this.#log, message.line);
      case 'settled':
        this.#rssBytes = message.rssBytes;
        return this.#listener?.(message);
      case 'begun':
      case 'checkpoint':
      case 'raise':
        return this.#listener?.(message);
    }
  }
}

function startThread(spec: IsolateSpec, env: NodeJS.ProcessEnv): Channel {
  const url = ownPart('isolate-thread.js', () => new URL('./isolate-thread.js', import.meta.url));
  const thread = new Thread(url, { workerData: spec, env: { ...env, [ISOLATE_ENV]: '{}' } });
  let how: Error | null = null;
  thread.on('error', (error: Error) => {
    how = error;
  });
  return {
    post: message => thread.postMessage(message),
    kill: () => void thread.terminate(),
    onMessage: listener => void thread.on('message', listener),
    onEnd: end =>
      void thread.once('exit', code => end(how ?? new Error(`its thread ended with code ${code}`))),
  };
}

function startProcess(spec: IsolateSpec, env: NodeJS.ProcessEnv): Channel {
  const entry = fileURLToPath(
    ownPart('isolate-process.js', () => new URL('./isolate-process.js', import.meta.url)),
  );
  const child = fork(entry, [], {
    env: { ...env, [ISOLATE_ENV]: JSON.stringify(spec) },
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  return {
    post: message => {
      if (child.connected) child.send(message, () => undefined);
    },
    kill: () => void child.kill('SIGKILL'),
    onMessage: listener => void child.on('message', message => listener(message as IsolateMessage)),
    onEnd: end => {
      child.once('error', end);
      child.once('exit', (code, signal) =>
        end(new Error(`its process ended with ${signal ?? `code ${code}`}`)),
      );
    },
  };
}

const notLoadable = (mode: IsolateMode, how: Error): Error =>
  unloadable(`a ${mode} for handlers ended before it had loaded them: ${how.message}`, how);

const loadsTooLong = (mode: IsolateMode): Error =>
  unloadable(`a ${mode} for handlers has not loaded them within ${LOAD_TIMEOUT_MS / 1_000} s`);

function unloadable(message: string, cause?: Error): Error {
  return outlastError('ERR_HANDLER_NOT_LOADABLE', {
    message,
    hint: 'Look at what the modules named in `tasks` do while they load.',
    fields: { file: '' },
    cause,
  });
}
