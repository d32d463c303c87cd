import type { PublishOutcome } from '../../broker/broker.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';

/** Unconfirmed messages on a route not known to answer: half of what RabbitMQ lets run ahead of a queue. */
const MOST_UNPROVEN = 200;
const MOST_UNPROVEN_BYTES = 4 * 1_048_576;
/** A route with messages in flight that was silent for this long is no longer known to answer. */
const SILENT_MS = 1_000;
/** A route with nothing in flight may have died since its last answer. */
const REMEMBERED_MS = 10_000;
/** A bound, because names come from messages. */
const MOST_ROUTES = 1_000;
/** Shorter than any send timeout: a caller that has given up must not have its message written afterwards. */
const TIMEOUT_MS = 5_000;

/** The state of one route: a queue of ours, or an exchange named by the sender. */
export class RouteWindow {
  #unconfirmed = 0;
  #bytes = 0;
  #answeredAt = -Infinity;
  /** Since when messages have been in flight without any answer. */
  #silentSince = 0;
  readonly #waiting = new Set<() => void>();

  get isIdle(): boolean {
    return this.#unconfirmed === 0 && this.#waiting.size === 0;
  }

  /** One message may be written. Reads no clock while few are in flight. */
  get hasRoom(): boolean {
    const isSmall = this.#unconfirmed < MOST_UNPROVEN && this.#bytes < MOST_UNPROVEN_BYTES;
    if (isSmall) return true;
    const now = systemClock.monotonic();
    return now - this.#silentSince < SILENT_MS && now - this.#answeredAt < REMEMBERED_MS;
  }

  written(bytes: number): void {
    if (this.#unconfirmed === 0) this.#silentSince = systemClock.monotonic();
    this.#unconfirmed += 1;
    this.#bytes += bytes;
  }

  settled(bytes: number, { status }: PublishOutcome): void {
    this.#unconfirmed -= 1;
    this.#bytes -= bytes;
    if (status !== 'unavailable') this.#answeredAt = this.#silentSince = systemClock.monotonic();
    for (const wake of this.#waiting) wake();
  }

  /** False: the window was full for longer than a caller may wait. */
  async untilFree(): Promise<boolean> {
    const timeout = new AbortController();
    const wake = (): void => {
      if (this.hasRoom) timeout.abort();
    };
    this.#waiting.add(wake);
    await sleep(systemClock, TIMEOUT_MS, timeout.signal);
    this.#waiting.delete(wake);
    return this.hasRoom;
  }
}

/**
 * Limits the messages in flight on one route. There is no limit while it answers, and a low one before its first answer
 * and after it has stopped: RabbitMQ stops reading from a connection with about four hundred messages for a queue that
 * accepts none. Kept across connections, so that the same queue does not block the next one.
 */
export class RouteWindows {
  readonly #routes = new Map<string, RouteWindow>();

  of(route: string): RouteWindow {
    const known = this.#routes.get(route);
    if (known) return known;
    if (this.#routes.size >= MOST_ROUTES)
      for (const [name, window] of this.#routes) if (window.isIdle) this.#routes.delete(name);
    const made = new RouteWindow();
    this.#routes.set(route, made);
    return made;
  }
}
