/** The slots for messages in flight. Waiters are served in order, so that one that needs all slots gets them. */
export class Window {
  readonly size: number;
  #free: number;
  readonly #waiting: { readonly slots: number; readonly enter: () => void }[] = [];

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  take(slots: number): Promise<void> {
    return new Promise(enter => {
      this.#waiting.push({ slots, enter });
      this.#serve();
    });
  }

  give(slots: number): void {
    this.#free += slots;
    this.#serve();
  }

  /** Runs `fn` while nothing else is in flight. */
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
      if (next === undefined || next.slots > this.#free) return;
      this.#waiting.shift();
      this.#free -= next.slots;
      next.enter();
    }
  }
}
