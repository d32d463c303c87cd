/**
 * Reports of a state to a process that may have been stopped. What it does not read stays in the memory of this one, so there is
 * never more than one: the next report says the same, and newer.
 */
export class OneUnsent {
  readonly #report: () => Promise<void>;
  #unsent: Promise<void> | null = null;

  /** @param report resolves when the pipe has taken the report; never rejects */
  constructor(report: () => Promise<void>) {
    this.#report = report;
  }

  /** Nothing, while one is unsent. */
  send(): void {
    this.#unsent ??= this.#report().finally(() => void (this.#unsent = null));
  }

  /** One that is newer than all before. */
  async sendLast(): Promise<void> {
    await this.#unsent;
    await this.#report();
  }
}
