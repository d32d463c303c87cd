/** The keys of admission. The part in braces decides the slot: all that belongs to one name is in one. */
export class AdmissionKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}outlast:admission:`;
  }

  /** The names of all keys that were used. */
  get index(): string {
    return `${this.#prefix}keys`;
  }

  state(key: string): string {
    return `${this.#of(key)}state`;
  }

  places(key: string): string {
    return `${this.#of(key)}places`;
  }

  wanted(key: string): string {
    return `${this.#of(key)}wanted`;
  }

  permit(token: string): string {
    return `${this.#prefix}permit:${token}`;
  }

  /** A name with braces of its own would decide otherwise about its slot. */
  #of(key: string): string {
    return `${this.#prefix}{${/[{}]/.test(key) ? `%${encodeURIComponent(key)}` : key}}:`;
  }
}
