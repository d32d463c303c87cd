import { outlastError } from '../../src/errors/error.ts';
import type { Faults, Service } from './faults.ts';
import type { SimProcess } from './sim-process.ts';
import type { VirtualTime } from './virtual-time.ts';

/** A call from a process to a store: the effect happens there, the answer may or may not come back. */
export type Call = <T>(effect: () => T | Promise<T>) => Promise<T>;

interface Network {
  readonly time: VirtualTime;
  readonly faults: Faults;
}

function unavailable(service: Service): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `the ${service} did not answer`,
    hint: 'It is simulated: the call may have had its effect or not.',
    fields: {},
  });
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
  return <T>(effect: () => T | Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      const fail = (): void => {
        onTrouble();
        process.enter(() => reject(unavailable(service)));
      };
      const send = (): void => {
        const { requestMs, replyMs, loses } = faults.fate();
        const arrive = (): void => {
          if (loses === 'request' || faults.isDown(service)) return fail();
          const answer = (value: T): void => {
            if (loses === 'reply') time.after(replyMs, fail);
            else reply(replyMs, () => resolve(value));
          };
          attempt(effect).then(answer, (error: unknown) =>
            reply(replyMs, () => reject(error as Error)),
          );
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
