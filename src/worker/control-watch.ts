import type { ConsumerReport, ControlOrders, ControlStore } from '../ledger/control-store.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** An order reaches every worker within this time. */
const LOOK_MS = 1_000;

export interface ControlWatchParts {
  readonly control: ControlStore;
  readonly runtime: Pick<Runtime, 'clock' | 'log'>;
  /** Null while the worker has no incarnation. */
  readonly report: () => ConsumerReport | null;
  readonly obey: (orders: ControlOrders) => void;
}

/** Reads the operators' orders for this worker once a second. While the store is away the last orders hold. */
export class ControlWatch {
  readonly #parts: ControlWatchParts;

  constructor(parts: ControlWatchParts) {
    this.#parts = parts;
  }

  async look(): Promise<void> {
    const { control, report, obey } = this.#parts;
    const me = report();
    if (me !== null) obey(await control.look(me));
  }

  /** Returns a function that stops it. */
  start(): () => void {
    const { clock, log } = this.#parts.runtime;
    let isStopped = false;
    let cancel = (): void => undefined;
    const again = (): void => {
      if (!isStopped) cancel = clock.timer(LOOK_MS, turn);
    };
    const turn = (): void => {
      this.look()
        .catch((error: unknown) => log.debug({ error }, 'no orders could be read'))
        .finally(again);
    };
    again();
    return () => {
      isStopped = true;
      cancel();
    };
  }
}
