import { outlastError } from '../../src/errors/error.ts';
import type { Checker } from './checker.ts';
import type { Faults, Service } from './faults.ts';
import type { SimProcess } from './sim-process.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

/** A call from a process to a store: the effect happens there, the answer may or may not come back. */
export type Call = <T>(effect: () => T | Promise<T>) => Promise<T>;

interface Network {
  readonly time: VirtualTime;
  readonly faults: Faults;
  readonly checker: Checker;
}

function unavailable(service: Service): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `the ${service} did not answer`,
    hint: 'It is simulated: the call may have had its effect or not.',
    fields: {},
  });
}

const BUSY_WINDOW_MS = 5_000;
/** A process that asks more often than this has no pause between its questions: it would melt a real database. */
const BUSY_CALLS = 400;

/** Notices processes that never sleep. */
function meter(process: SimProcess, { time, checker }: Network): () => void {
  let sinceMs = 0;
  let calls = 0;
  return () => {
    if (time.nowMs - sinceMs > BUSY_WINDOW_MS) {
      sinceMs = time.nowMs;
      calls = 0;
    }
    calls += 1;
    if (calls === BUSY_CALLS)
      checker.report('busy', `${process.name} made ${calls} calls in ${BUSY_WINDOW_MS} ms`);
  };
}

/**
 * Gives a process its way to one service. A request that is lost has no effect, a lost reply had one; both look the
 * same from here. `onTrouble` is what else breaks then, such as the connection.
 */
export function callsTo(
  service: Service,
  process: SimProcess,
  network: Network,
  onTrouble: () => void = () => undefined,
): Call {
  const { time, faults } = network;
  const count = meter(process, network);
  return <T>(effect: () => T | Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      const fail = (): void => {
        onTrouble();
        process.enter(() => reject(unavailable(service)));
      };
      const send = (): void => {
        count();
        const { requestMs, replyMs, loses } = faults.fate();
        const arrive = (): void => {
          if (loses === 'request' || faults.isDown(service)) return fail();
          const answer = (value: T): void => {
            if (loses === 'reply') time.after(replyMs, fail);
            else reply(replyMs, () => resolve(value));
          };
          attempt(effect).then(answer, (error: unknown) => reply(replyMs, () => reject(error)));
        };
        time.after(requestMs, arrive);
      };
      const reply = (ms: number, settle: () => void): void => {
        if (ms === 0) process.enter(settle);
        else time.after(ms, () => process.enter(settle));
      };
      // A paused process cannot even send.
      process.enter(send);
    });
}

/** A store that throws at once must look like one that rejects. */
async function attempt<T>(effect: () => T | Promise<T>): Promise<T> {
  return await effect();
}
