import { takeKeys } from '../../config/signing.ts';
import { encodeError } from '../../errors/wire-error.ts';
import { processFaultPoint, systemClock, systemRandom } from '../../runtime/runtime.ts';
import { noEvents } from '../../telemetry/events.ts';
import { isolateLogger } from '../../worker/isolate/isolate-log.ts';
import type { ToIsolate } from '../../worker/isolate/isolate.ts';
import { IsolateServer } from '../../worker/isolate/serve-isolate.ts';
import { guardedInTrace } from '../../traces/guarded-traces.ts';
import { handlerMap, loadHandlers } from '../load-handlers.ts';
import type { IsolateMessage, IsolateSpec } from './isolate-spec.ts';

export interface IsolateEnds {
  readonly post: (message: IsolateMessage) => void;
  readonly listen: (listener: (message: ToIsolate) => void) => void;
  readonly rssBytes: () => number;
}

/** What threads and processes have in common: load the handlers, report that, and run tasks. */
export async function runIsolate(
  spec: IsolateSpec,
  { post, listen, rssBytes }: IsolateEnds,
): Promise<void> {
  const runtime = {
    clock: systemClock,
    random: systemRandom,
    faultPoint: processFaultPoint(),
    log: isolateLogger(line => post({ kind: 'log', line })),
    // The worker emits the events of its tasks.
    emit: noEvents,
  };
  // Before a handler is loaded, which may start any process.
  takeKeys(process.env);
  try {
    const found = await loadHandlers(spec.handlers);
    const handlers = handlerMap(found.map(({ handler }) => handler));
    const server = new IsolateServer({
      handlers,
      runtime,
      post,
      rssBytes,
      inTrace: guardedInTrace(runtime.log),
    });
    listen(message => server.receive(message));
    post({ kind: 'ready', tasks: [...handlers.keys()] });
  } catch (error) {
    post({ kind: 'unloadable', error: encodeError(error) });
  }
}
