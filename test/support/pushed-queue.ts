import type { PushedQueue, PushWindow, QueueDemand } from '../../src/broker/demand.ts';

interface Opened {
  readonly size: number;
  held: number;
  state: PushWindow['state'];
}

interface Message {
  readonly window: Opened;
  readonly bytes: number;
  isTaken: boolean;
}

/** A queue of a broker that pushes, in memory: every window is filled at once, as far as there are messages. */
export class TestQueue implements PushedQueue {
  isConsuming = true;
  isPulling = false;
  isAwaited = true;
  waitedMs = 0;
  messageBytes = 100;
  /** Messages at the server. */
  ready = 0;
  /** The server does not answer: windows that are opened stay so. */
  isSlow = false;
  givenBack = 0;
  windows: Opened[] = [];
  #messages: Message[] = [];
  demand: QueueDemand | null = null;

  obey(demand: QueueDemand): this {
    this.demand = demand;
    this.#open(demand.first);
    return this;
  }

  get unacknowledged(): number {
    return this.#messages.length;
  }

  get atHand(): number {
    return this.#messages.filter(({ isTaken }) => !isTaken).length;
  }

  get running(): number {
    return this.unacknowledged - this.atHand;
  }

  get bytesAtHand(): number {
    return this.#messages.reduce((sum, { bytes, isTaken }) => (isTaken ? sum : sum + bytes), 0);
  }

  /** The sizes of windows that are open. */
  get sizes(): readonly number[] {
    return this.windows.filter(({ state }) => state === 'open').map(({ size }) => size);
  }

  arrive(count: number): void {
    this.ready += count;
    this.#push();
  }

  /** As a worker with a free slot. */
  takeOne(): boolean {
    const message = this.#messages.find(({ isTaken }) => !isTaken);
    if (message) message.isTaken = true;
    if (this.atHand === 0) this.demand?.ranShort();
    return message !== undefined;
  }

  /** The oldest messages are acknowledged. */
  end(count: number): void {
    for (const { window } of this.#messages.splice(0, count)) window.held -= 1;
    this.demand?.acknowledged(count, null);
    this.#push();
  }

  lose(): void {
    this.isConsuming = false;
    this.#messages = [];
    for (const window of this.windows.splice(0)) Object.assign(window, { held: 0, state: 'shut' });
    this.demand?.changed();
  }

  open(size: number): PushWindow | null {
    if (this.isPulling || !this.isConsuming) return null;
    const window = this.#open(size);
    this.#push();
    return window;
  }

  shut(windows: readonly PushWindow[], givesBack: boolean): Promise<void> {
    for (const window of this.windows) if (windows.includes(window)) window.state = 'shut';
    const goes = ({ isTaken, window }: Message): boolean =>
      givesBack && !isTaken && windows.includes(window);
    for (const message of this.#messages.filter(goes)) message.window.held -= 1;
    this.givenBack += this.#messages.filter(goes).length;
    this.#messages = this.#messages.filter(message => !goes(message));
    this.demand?.changed();
    return Promise.resolve();
  }

  pause(): Promise<void> {
    this.isPulling = true;
    return this.shut([...this.windows], true);
  }

  resume(): void {
    this.isPulling = false;
    this.#open(this.demand?.first ?? 0);
    this.#push();
  }

  #open(size: number): Opened {
    const window: Opened = { size, held: 0, state: this.isSlow ? 'opening' : 'open' };
    this.windows.push(window);
    return window;
  }

  #push(): void {
    const before = this.atHand;
    for (const window of this.windows)
      while (window.state === 'open' && this.ready > 0 && window.held < window.size) {
        this.ready -= 1;
        window.held += 1;
        this.#messages.push({ window, bytes: this.messageBytes, isTaken: false });
      }
    if (before === 0 && this.atHand > 0) this.demand?.arrived();
  }
}
