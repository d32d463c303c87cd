import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ResolvedConfig } from '../config/config.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { Supervisor, type Child } from '../worker/supervisor.ts';
import { resurrectorSettings } from './services.ts';
import type { Stores } from './stores.ts';
import { SPEC_ENV, type ToChild, type WorkerSpec } from './worker-spec.ts';

export interface SuperviseOptions {
  readonly stores: Stores;
  readonly config: ResolvedConfig;
  readonly runtime: Runtime;
  /** Everything but the name, which is drawn anew for every child. */
  readonly spec: Omit<WorkerSpec, 'process'>;
  /** Variables for the children besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A supervisor over real processes. */
export function makeSupervisor(options: SuperviseOptions): Supervisor {
  const { stores, config, runtime, spec, env = {} } = options;
  const { processes, shutdownTimeoutMs } = config.worker;
  const settings = { ...resurrectorSettings(config), processes, shutdownTimeoutMs };
  const spawn = (process: string): Child => spawnChild({ ...spec, process }, env);
  return new Supervisor({ ledger: stores.ledger, runtime, settings, spawn });
}

function spawnChild(spec: WorkerSpec, env: Readonly<Record<string, string>>): Child {
  const entry = fileURLToPath(new URL('./worker-child.js', import.meta.url));
  const child = fork(entry, [], {
    env: { ...process.env, ...env, [SPEC_ENV]: JSON.stringify(spec) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = new Promise<string>(resolve => {
    child.once('exit', (code, signal) => resolve(signal ?? `code ${code}`));
    child.once('error', error => resolve(error.message));
  });
  const say = (message: ToChild): void => {
    // The channel of a child that is just dying is gone; its exit says the rest.
    if (child.connected) child.send(message, () => undefined);
  };
  return {
    process: spec.process,
    pid: child.pid ?? 0,
    exited,
    drain: () => say('drain'),
    kill: () => void child.kill('SIGKILL'),
  };
}
