import { outlastError } from '../errors/error.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';

interface Closable {
  close(): Promise<void>;
}

/** Longer than any adapter waits for an answer to its farewell: the drivers give up by themselves first. */
export const CLOSE_TIMEOUT_MS = 10_000;

/**
 * What a context has opened. Each resource is opened when it is first needed and once; all are closed in one place, the last
 * one first, whatever happens to the others: one that fails or does not answer is logged and left behind.
 */
export class Resources {
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  readonly #opening = new Map<string, Promise<Closable>>();
  /** In the order in which they were opened. */
  readonly #opened: { readonly name: string; readonly resource: Closable }[] = [];
  #closed: Promise<void> | undefined;

  constructor(runtime: Pick<Runtime, 'clock' | 'log'>) {
    this.#runtime = runtime;
  }

  /** `open` is called for the first who asks; the others get the same resource. */
  get<T extends Closable>(name: string, open: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closed());
    const known = this.#opening.get(name) as Promise<T> | undefined;
    if (known) return known;
    const opening = this.#open(name, open);
    this.#opening.set(name, opening);
    return opening;
  }

  async #open<T extends Closable>(name: string, open: () => Promise<T>): Promise<T> {
    try {
      const resource = await open();
      this.#opened.push({ name, resource });
      return resource;
    } catch (error) {
      // A failed attempt is not remembered: the next caller may find the server up.
      this.#opening.delete(name);
      throw error;
    }
  }

  /** A second call waits for the same end. It never fails: what cannot be closed is nothing a caller could mend. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const opening = [...this.#opening.values()];
    await this.#inTime(Promise.allSettled(opening));
    await this.#closeOpened();
    // What is opened after all of this has no owner any more.
    for (const late of opening) late.then(() => this.#closeOpened()).catch(() => undefined);
  }

  async #closeOpened(): Promise<void> {
    for (let last = this.#opened.pop(); last; last = this.#opened.pop()) {
      const { name, resource } = last;
      try {
        if (await this.#inTime(resource.close())) continue;
        this.#runtime.log.warn(
          { resource: name },
          'it did not answer to its closing: left as it is',
        );
      } catch (error) {
        this.#runtime.log.warn({ resource: name, error }, 'it could not be closed');
      }
    }
  }

  /** False: it takes longer than anything should. */
  async #inTime(work: Promise<unknown>): Promise<boolean> {
    const ended = new AbortController();
    const tooLong = sleep(this.#runtime.clock, CLOSE_TIMEOUT_MS, ended.signal).then(() => false);
    try {
      return await Promise.race([work.then(() => true), tooLong]);
    } finally {
      ended.abort();
    }
  }
}

function closed(): Error {
  return outlastError('ERR_CLOSED', {
    message: 'this Outlast was closed',
    hint: 'Create a new one, or close it later.',
    fields: {},
  });
}
