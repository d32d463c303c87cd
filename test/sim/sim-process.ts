import type { Clock } from '../../src/runtime/runtime.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

/**
 * One operating-system process.
 *
 *   running ──pause──► paused ──resume──► running          any ──kill──► dead
 *
 * Whatever happens to it (a timer, a reply, a hint) goes through `enter`: a dead process never gets it, a paused one
 * gets it when it wakes. What it sent before is on its way all the same.
 */
export class SimProcess {
  readonly name: string;
  readonly clock: Clock;
  readonly #time: VirtualTime;
  readonly #onEnd: (() => void)[] = [];
  #state: 'running' | 'paused' | 'dead' = 'running';
  #backlog: (() => void)[] = [];

  constructor(name: string, time: VirtualTime, wallMs: number) {
    this.name = name;
    this.#time = time;
    // The monotonic clock of each process starts somewhere else, and its wall clock is wrong by a constant.
    const bootedMs = time.nowMs - 1_000;
    this.clock = {
      now: () => wallMs + time.nowMs,
      monotonic: () => time.nowMs - bootedMs,
      timer: (ms, fn) => this.#timer(ms, fn),
    };
  }

  get isAlive(): boolean {
    return this.#state !== 'dead';
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** Runs `fn` as part of this process: now, when it wakes, or never. */
  enter(fn: () => void): void {
    if (this.#state === 'running') fn();
    else if (this.#state === 'paused') this.#backlog.push(fn);
  }

  /** Called once, when the process is killed or has ended by itself. */
  onEnd(fn: () => void): void {
    if (this.isAlive) this.#onEnd.push(fn);
    else fn();
  }

  /** No line of this process runs any more. Also what is left when it ends by itself. */
  end(): void {
    if (!this.isAlive) return;
    this.#state = 'dead';
    this.#backlog = [];
    for (const fn of this.#onEnd) fn();
  }

  pause(ms: number): void {
    if (this.#state !== 'running') return;
    this.#state = 'paused';
    this.#time.after(ms, () => this.resume());
  }

  /** What came while it slept comes now, one thing after the other. */
  resume(): void {
    if (this.#state !== 'paused') return;
    this.#state = 'running';
    const backlog = this.#backlog;
    this.#backlog = [];
    for (const fn of backlog) this.#time.after(0, () => this.enter(fn));
  }

  #timer(ms: number, fn: () => void): () => void {
    let isCancelled = false;
    // It may be cancelled while it waits in the backlog of a paused process.
    const fire = (): void => {
      if (!isCancelled) fn();
    };
    const cancel = this.#time.after(ms, () => this.enter(fire));
    return () => {
      isCancelled = true;
      cancel();
    };
  }
}
