import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Death } from '../ledger/death.ts';
import type { ChildMetrics } from '../metrics/children.ts';
import { decodeError } from '../errors/wire-error.ts';
import type { Context } from '../context/context.ts';
import { type Child, Supervisor } from '../worker/supervisor.ts';
import { type FromChild, SPEC_ENV, type ToChild, type WorkerSpec, ownPart } from './worker-spec.ts';
import { LAST_WORDS_FD, MemoryKills, howItEnded } from './how-it-ended.ts';
import { resurrectorSettings } from './resurrector-service.ts';
import type { Pulses } from './health/worker-health.ts';

export interface SuperviseOptions {
  /** How many children. @default from the configuration */
  readonly processes?: number;
  /** Everything but the name, which is generated for every child. */
  readonly spec: Omit<WorkerSpec, 'process'>;
  /** Variables for the children besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Called when the first child cannot load its handlers. Later ones are tried again: it has worked before. */
  readonly onUnloadable?: (error: Error) => void;
  /** Receives the state of the children. */
  readonly pulses?: Pulses;
  /** Receives what they have counted. */
  readonly metrics?: ChildMetrics;
}

/** A channel closes with its process; this is for one that does not. */
const LAST_MESSAGE_MS = 1_000;
const LAST_WORDS_CHARS = 1_000;

/** A supervisor over real processes. */
export async function makeSupervisor(
  context: Context,
  options: SuperviseOptions,
): Promise<Supervisor> {
  const { runtime } = context;
  const { ledger } = await context.stores();
  const { shutdownTimeoutMs, processes: configured } = context.config.worker;
  const { processes = configured, spec, env = {}, onUnloadable, pulses, metrics } = options;
  let hasLoaded = false;
  const reportUnloadable = (error: Error): void => {
    if (!hasLoaded && onUnloadable) return onUnloadable(error);
    runtime.log.error({ error }, 'a worker process cannot load its handlers');
  };
  const onMessage = (message: FromChild): void => {
    if (message.kind === 'loaded') {
      // All children load the same modules.
      if (!hasLoaded) runtime.log.info({ tasks: message.tasks }, 'handlers loaded');
      hasLoaded = true;
    }
    if (message.kind === 'unloadable') reportUnloadable(decodeError(message.error));
  };
  const modules = [...context.config.tasks, ...spec.modules];
  const settings = {
    ...resurrectorSettings(context),
    processes,
    shutdownTimeoutMs,
    modules: spec.configFile === null ? modules : [spec.configFile, ...modules],
  };
  const memory = new MemoryKills();
  const spawn = (process: string): Child => {
    const child = spawnChild(
      { ...spec, process },
      env,
      message => {
        if (message.kind === 'pulse') {
          pulses?.record(process, message.health);
          if (message.metrics !== undefined) metrics?.record(process, message.metrics);
        } else onMessage(message);
      },
      memory,
    );
    pulses?.loading(process, true);
    void child.loaded.then(() => pulses?.loading(process, false));
    void child.exited.then(() => {
      pulses?.gone(process);
      metrics?.gone(process);
    });
    return child;
  };
  return new Supervisor({ ledger, runtime, settings, spawn });
}

/** Modules may wait for a silent server while they load. */
const CHECK_MS = 60_000;

/** Whether config and handlers load, tried in a process of its own; null: they do. */
export async function checkHandlers(
  { spec, env = {} }: Pick<SuperviseOptions, 'spec' | 'env'>,
  signal: AbortSignal,
): Promise<Error | null> {
  let answer: Error | 'loaded' | null = null;
  const onMessage = (message: FromChild): void => {
    if (message.kind === 'loaded') answer = 'loaded';
    if (message.kind === 'unloadable') answer = decodeError(message.error);
  };
  const checked = { ...spec, process: 'check', isCheck: true };
  const child = spawnChild(checked, env, onMessage, new MemoryKills());
  const limit = AbortSignal.any([signal, AbortSignal.timeout(CHECK_MS)]);
  const end = (): void => child.kill();
  limit.addEventListener('abort', end);
  const { message: how } = await child.exited;
  limit.removeEventListener('abort', end);
  if (answer === 'loaded') return null;
  return answer ?? new Error(`the process that loaded them ended: ${how}`);
}

function spawnChild(
  spec: WorkerSpec,
  env: Readonly<Record<string, string>>,
  onMessage: (message: FromChild) => void,
  memory: MemoryKills,
): Child {
  const entry = fileURLToPath(
    ownPart('worker-child.js', () => new URL('./worker-child.js', import.meta.url)),
  );
  const child = fork(entry, [], {
    env: { ...process.env, ...env, [SPEC_ENV]: JSON.stringify(spec) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
  });
  child.on('message', onMessage);
  const dismissed = new Promise<void>(resolve => {
    child.on('message', (message: FromChild) => {
      if (message.kind === 'dismissed') resolve();
    });
  });
  let lastWords = '';
  let isKilled = false;
  let verdict: Death | undefined;
  child.stdio[LAST_WORDS_FD]?.on('data', (words: Buffer) => {
    lastWords = (lastWords + String(words)).slice(-LAST_WORDS_CHARS);
  });
  const isMemoryShort = (): boolean => memory.isRecent();
  const exited = new Promise<Death>(resolve => {
    child.once('exit', (code, signal) => {
      const end = (): void =>
        resolve(verdict ?? howItEnded({ code, signal, lastWords, isKilled, isMemoryShort }));
      // Its last messages are read before the channels close: they may ask not to replace it, and say why it ended.
      child.once('close', end);
      setTimeout(end, LAST_MESSAGE_MS).unref();
    });
    child.once('error', ({ message }) => resolve({ kind: 'exited', message }));
  });
  const loaded = new Promise<void>(resolve => {
    child.on('message', (message: FromChild) => {
      if (message.kind === 'loaded') resolve();
    });
  });
  const worn = new Promise<string>(resolve => {
    child.on('message', (message: FromChild) => {
      if (message.kind === 'worn') resolve(message.why);
    });
  });
  const send = (message: ToChild): void => {
    // The channel of a dying child is gone; its exit reports the rest.
    if (child.connected) child.send(message, () => undefined);
  };
  return {
    process: spec.process,
    pid: child.pid ?? 0,
    exited,
    loaded,
    dismissed,
    worn,
    retire: () => send('retire'),
    drain: () => send('drain'),
    kill: why => {
      isKilled = true;
      verdict = why;
      child.kill('SIGKILL');
    },
  };
}
