/** The keys of admission. The part in braces decides the hash slot: all keys of one name are in one. */
export class AdmissionKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}outlast:admission:`;
  }

  /** The names of all keys in use. */
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

  /** A name that contains braces would change its hash slot. */
  #of(key: string): string {
    return `${this.#prefix}{${/[{}]/.test(key) ? `%${encodeURIComponent(key)}` : key}}:`;
  }
}
