import type {
  Consumer,
  ConsumerReport,
  ControlOrders,
  ControlStore,
} from '../../ledger/control-store.ts';
import type { Clock } from '../../runtime/runtime.ts';

interface Entry extends ConsumerReport {
  readonly untilMs: number;
  readonly isDraining: boolean;
}

/** Operators' instructions to workers, in RAM. */
export class MemoryControlStore implements ControlStore {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #paused = new Set<string>();
  readonly #consumers = new Map<string, Entry>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  async look(report: ConsumerReport): Promise<ControlOrders> {
    const { worker, leaseMs } = report;
    const isDraining = this.#living().some(entry => entry.worker === worker && entry.isDraining);
    const untilMs = this.#clock.now() + leaseMs;
    this.#consumers.set(worker, { ...report, untilMs, isDraining });
    return { paused: [...this.#paused].sort(), isDraining };
  }

  async pause(queue: string): Promise<boolean> {
    return !this.#paused.has(queue) && this.#paused.add(queue).has(queue);
  }

  async resume(queue: string): Promise<boolean> {
    return this.#paused.delete(queue);
  }

  async paused(): Promise<readonly string[]> {
    return [...this.#paused].sort();
  }

  isPaused(queue: string): boolean {
    return this.#paused.has(queue);
  }

  async consumers(): Promise<readonly Consumer[]> {
    return this.#living()
      .map(({ worker, process, host, pid, queues, running, isDraining }) => ({
        worker,
        process,
        host,
        pid,
        queues,
        running,
        isDraining,
      }))
      .sort((a, b) => (a.worker < b.worker ? -1 : 1));
  }

  async drain(worker: string): Promise<boolean> {
    const entry = this.#living().find(living => living.worker === worker);
    if (entry) this.#consumers.set(worker, { ...entry, isDraining: true });
    return entry !== undefined;
  }

  #living(): readonly Entry[] {
    return [...this.#consumers.values()].filter(({ untilMs }) => untilMs >= this.#clock.now());
  }
}
