import { encodeError } from '../errors/wire-error.ts';
import { systemClock } from '../runtime/clock.ts';
import { systemRandom } from '../runtime/random.ts';
import { noEvents } from '../telemetry/events.ts';
import { roomLogger } from '../worker/room-log.ts';
import type { ToRoom } from '../worker/room.ts';
import { RoomServer } from '../worker/serve-room.ts';
import { faultPointFromEnv } from './fault-point-env.ts';
import { handlerMap } from './handler-map.ts';
import { loadHandlers } from './load-handlers.ts';
import type { RoomMessage, RoomSpec } from './room-spec.ts';

export interface RoomEnds {
  readonly post: (message: RoomMessage) => void;
  readonly listen: (hear: (message: ToRoom) => void) => void;
  readonly rssBytes: () => number;
}

/** What threads and processes have in common: load the handlers, say so, and run what comes. */
export async function runRoom(spec: RoomSpec, { post, listen, rssBytes }: RoomEnds): Promise<void> {
  const runtime = {
    clock: systemClock,
    random: systemRandom,
    faultPoint: faultPointFromEnv(process.env),
    log: roomLogger(line => post({ kind: 'log', line })),
    // The worker tells what becomes of its tasks.
    emit: noEvents,
  };
  try {
    const found = await loadHandlers(spec.handlers);
    const handlers = handlerMap(found.map(({ handler }) => handler));
    const server = new RoomServer({ handlers, runtime, post, rssBytes });
    listen(message => server.hear(message));
    post({ kind: 'ready', tasks: [...handlers.keys()] });
  } catch (error) {
    post({ kind: 'unloadable', error: encodeError(error) });
  }
}
