import { decodeError } from '../../errors/wire-error.ts';
import type { RaiseReply, StepStatus } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { execute } from '../run/execute.ts';
import type { Handler } from '../handler.ts';
import { packError } from '../run/pack-error.ts';
import type { FromIsolate, PackedSettlement, ToIsolate } from './isolate.ts';
import type { RunLedger } from '../run/run-scope.ts';
import { RunStop, type Settlement } from '../run/settlement.ts';

export interface IsolateServerDeps {
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly runtime: Runtime;
  readonly post: (message: FromIsolate) => void;
  readonly rssBytes: () => number;
  /** Runs `fn` where the headers say that its trace is. Left out: nothing is traced. */
  readonly inTrace?: <T>(headers: Readonly<Record<string, string>>, fn: () => T) => T;
}

interface Call {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The inside of an isolate: runs one task at a time as a worker would, and asks the worker for what only the worker can do.
 * Effects use connections of their own, because the handler was loaded here; only what a fence needs from the ledger
 * is asked of the worker.
 */
export class IsolateServer {
  readonly #deps: IsolateServerDeps;
  readonly #calls = new Map<number, Call>();
  #lastCall = 0;
  #draining = new AbortController();
  #stop = new RunStop(this.#draining.signal);

  constructor(deps: IsolateServerDeps) {
    this.#deps = deps;
  }

  receive(message: ToIsolate): void {
    switch (message.kind) {
      case 'run':
        return void this.#run(message);
      case 'stop':
        return this.#stop.stop(message.reason);
      case 'drain':
        return this.#draining.abort();
      case 'kept':
        return this.#answer(message.call)?.resolve(message.status as never);
      case 'raised':
        return this.#answer(message.call)?.resolve(message.reply as never);
      case 'not-asked':
        return this.#answer(message.call)?.reject(decodeError(message.error));
    }
  }

  async #run({ task, effect, trace }: Extract<ToIsolate, { kind: 'run' }>): Promise<void> {
    const { handlers, runtime, post, rssBytes, inTrace } = this.#deps;
    this.#draining = new AbortController();
    this.#stop = new RunStop(this.#draining.signal);
    post({ kind: 'begun' });
    let running: Promise<unknown> = Promise.resolve();
    const ledger: RunLedger = {
      checkpoint: (_, seq, data) =>
        this.#ask<StepStatus>(call => ({ kind: 'checkpoint', call, seq, data })),
      raiseEpoch: (_, above) => this.#ask<RaiseReply>(call => ({ kind: 'raise', call, above })),
    };
    const onRunning = (handler: Promise<unknown>): void => {
      running = handler;
    };
    const start = { task, stop: this.#stop, ledger, effect };
    const run = () => execute(start, { handlers, runtime, onRunning });
    const settlement = await (trace === null || !inTrace ? run() : inTrace(trace, run));
    // A handler that goes on after its signal is not over: the worker kills the isolate, and no run enters it meanwhile.
    await running.catch(() => undefined);
    post({ kind: 'settled', settlement: packed(settlement), rssBytes: rssBytes() });
  }

  #ask<Answer>(question: (call: number) => FromIsolate): Promise<Answer> {
    const call = ++this.#lastCall;
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#deps.post(question(call));
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
