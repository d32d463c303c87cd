/**
 * The places for messages that are on their way and not confirmed. Who waits is served in order, so that whoever wants
 * all of them gets them.
 */
export class Window {
  readonly size: number;
  #free: number;
  readonly #waiting: { readonly places: number; readonly enter: () => void }[] = [];

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  take(places: number): Promise<void> {
    return new Promise(enter => {
      this.#waiting.push({ places, enter });
      this.#serve();
    });
  }

  give(places: number): void {
    this.#free += places;
    this.#serve();
  }

  /** Runs `fn` while nothing else is on its way. */
  async alone<T>(fn: () => Promise<T>): Promise<T> {
    await this.take(this.size);
    try {
      return await fn();
    } finally {
      this.give(this.size);
    }
  }

  #serve(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined || next.places > this.#free) return;
      this.#waiting.shift();
      this.#free -= next.places;
      next.enter();
    }
  }
}
