import { decodeError } from '../errors/wire-error.ts';
import type { BegunTask, RunRef, StepStatus } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { execute } from './execute.ts';
import type { Handler } from './handler.ts';
import { packError } from './pack-error.ts';
import type { FromRoom, PackedSettlement, ToRoom } from './room.ts';
import { RunStop } from './run-stop.ts';
import type { Settlement } from './settlement.ts';

export interface RoomServerDeps {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly runtime: Runtime;
  readonly post: (message: FromRoom) => void;
  readonly rssBytes: () => number;
}

interface Call {
  readonly resolve: (status: StepStatus) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The inside of a room: runs one task at a time as a worker would, and asks the worker for what only that can do.
 * Effects need nothing of the worker: the handler was loaded here and has connections of its own, and the fence it
 * passes is the run's.
 */
export class RoomServer {
  readonly #deps: RoomServerDeps;
  readonly #calls = new Map<number, Call>();
  #lastCall = 0;
  #draining = new AbortController();
  #stop = new RunStop(this.#draining.signal);

  constructor(deps: RoomServerDeps) {
    this.#deps = deps;
  }

  hear(message: ToRoom): void {
    switch (message.kind) {
      case 'run':
        return void this.#run(message.task);
      case 'stop':
        return this.#stop.stop(message.reason);
      case 'drain':
        return this.#draining.abort();
      case 'kept':
        return this.#answer(message.call)?.resolve(message.status);
      case 'not-kept':
        return this.#answer(message.call)?.reject(decodeError(message.error));
    }
  }

  async #run(task: BegunTask): Promise<void> {
    const { handlers, runtime, post, rssBytes } = this.#deps;
    this.#draining = new AbortController();
    this.#stop = new RunStop(this.#draining.signal);
    post({ kind: 'begun' });
    let running: Promise<unknown> = Promise.resolve();
    const settlement = await execute(task, this.#stop, {
      handlers,
      runtime,
      ledger: { checkpoint: (run, seq, data) => this.#checkpoint(run, seq, data) },
      onRunning: handler => {
        running = handler;
      },
    });
    // A handler that goes on after its signal is not over: the worker kills the room, and nobody enters it meanwhile.
    await running.catch(() => undefined);
    post({ kind: 'settled', settlement: packed(settlement), rssBytes: rssBytes() });
  }

  #checkpoint(_run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const call = ++this.#lastCall;
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#deps.post({ kind: 'checkpoint', call, seq, data });
    });
  }

  #answer(call: number): Call | undefined {
    const found = this.#calls.get(call);
    this.#calls.delete(call);
    return found;
  }
}

function packed(settlement: Settlement): PackedSettlement {
  return settlement.kind === 'fail'
    ? { ...settlement, cause: packError(settlement.cause) }
    : settlement;
}
