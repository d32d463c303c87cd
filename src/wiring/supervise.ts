import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { decodeError } from '../errors/wire-error.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { Supervisor, type Child } from '../worker/supervisor.ts';
import { resurrectorSettings } from './services.ts';
import type { Stores } from './stores.ts';
import type { Pulses } from './worker-health.ts';
import { SPEC_ENV, type FromChild, type ToChild, type WorkerSpec } from './worker-spec.ts';

export interface SuperviseOptions {
  readonly stores: Stores;
  readonly config: ResolvedConfig;
  readonly runtime: Runtime;
  /** Everything but the name, which is drawn anew for every child. */
  readonly spec: Omit<WorkerSpec, 'process'>;
  /** Variables for the children besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Told when the first child cannot load its handlers. Later ones are tried again: it has worked before. */
  readonly onUnloadable?: (error: Error) => void;
  /** Told how the children are. */
  readonly pulses?: Pulses;
}

/** A channel closes with its process; this is for one that does not. */
const LAST_WORDS_MS = 1_000;

/** A supervisor over real processes. */
export function makeSupervisor(options: SuperviseOptions): Supervisor {
  const { stores, config, runtime, spec, env = {}, onUnloadable, pulses } = options;
  let hasLoaded = false;
  const tellUnloadable = (error: Error): void => {
    if (!hasLoaded && onUnloadable) return onUnloadable(error);
    runtime.log.error({ error }, 'a worker process cannot load its handlers');
  };
  const hear = (message: FromChild): void => {
    if (message.kind === 'loaded') hasLoaded = true;
    if (message.kind === 'unloadable') tellUnloadable(decodeError(message.error));
  };
  const { processes, shutdownTimeoutMs } = config.worker;
  const settings = { ...resurrectorSettings(config, runtime), processes, shutdownTimeoutMs };
  const spawn = (process: string): Child => {
    const child = spawnChild({ ...spec, process }, env, message => {
      if (message.kind === 'pulse') pulses?.hear(process, message.health);
      else hear(message);
    });
    void child.exited.then(() => pulses?.gone(process));
    return child;
  };
  return new Supervisor({ ledger: stores.ledger, runtime, settings, spawn });
}

function spawnChild(
  spec: WorkerSpec,
  env: Readonly<Record<string, string>>,
  hear: (message: FromChild) => void,
): Child {
  const entry = fileURLToPath(new URL('./worker-child.js', import.meta.url));
  const child = fork(entry, [], {
    env: { ...process.env, ...env, [SPEC_ENV]: JSON.stringify(spec) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  child.on('message', hear);
  const dismissed = new Promise<void>(resolve => {
    child.on('message', (message: FromChild) => {
      if (message.kind === 'dismissed') resolve();
    });
  });
  const exited = new Promise<string>(resolve => {
    child.once('exit', (code, signal) => {
      const end = (): void => resolve(signal ?? `code ${code}`);
      if (!child.connected) return end();
      // Its last words are read before the channel closes, and may say that nobody is to take its place.
      child.once('disconnect', end);
      setTimeout(end, LAST_WORDS_MS).unref();
    });
    child.once('error', error => resolve(error.message));
  });
  const worn = new Promise<string>(resolve => {
    child.on('message', (message: FromChild) => {
      if (message.kind === 'worn') resolve(message.why);
    });
  });
  const say = (message: ToChild): void => {
    // The channel of a child that is just dying is gone; its exit says the rest.
    if (child.connected) child.send(message, () => undefined);
  };
  return {
    process: spec.process,
    pid: child.pid ?? 0,
    exited,
    dismissed,
    worn,
    retire: () => say('retire'),
    drain: () => say('drain'),
    kill: () => void child.kill('SIGKILL'),
  };
}
