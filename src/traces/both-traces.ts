import type {
  RunEnd,
  RunTrace,
  SendTrace,
  Traced,
  TracedTask,
  Traces,
} from '../telemetry/traces.ts';

/** Two of them at a time; of two headers with one name the one of the first counts. */
export class BothTraces implements Traces {
  readonly #first: Traces;
  readonly #second: Traces;

  constructor(first: Traces, second: Traces) {
    this.#first = first;
    this.#second = second;
  }

  async create<T>(fn: (trace: SendTrace) => Promise<T>): Promise<T> {
    return await this.#first.create(one =>
      this.#second.create(two =>
        fn({
          headers: { ...two.headers, ...one.headers },
          wrote: tasks => {
            one.wrote(tasks);
            two.wrote(tasks);
          },
        }),
      ),
    );
  }

  async publish<A extends { readonly status: string }>(
    messages: readonly Traced[],
    fn: () => Promise<readonly A[]>,
  ): Promise<readonly A[]> {
    return await this.#first.publish(messages, () => this.#second.publish(messages, fn));
  }

  begun(task: TracedTask): RunTrace {
    return new BothRuns(this.#first.begun(task), this.#second.begun(task));
  }
}

class BothRuns implements RunTrace {
  readonly #one: RunTrace;
  readonly #two: RunTrace;

  constructor(one: RunTrace, two: RunTrace) {
    this.#one = one;
    this.#two = two;
  }

  get headers(): RunTrace['headers'] {
    return { ...this.#two.headers, ...this.#one.headers };
  }

  get isolateHeaders(): RunTrace['isolateHeaders'] {
    return this.#one.isolateHeaders ?? this.#two.isolateHeaders;
  }

  started(): void {
    this.#one.started();
    this.#two.started();
  }

  within<T>(fn: () => T): T {
    return this.#one.within(() => this.#two.within(fn));
  }

  ended(end: RunEnd): void {
    this.#one.ended(end);
    this.#two.ended(end);
  }

  settle<T>(fn: () => T | Promise<T>): T | Promise<T> {
    return this.#one.settle(() => this.#two.settle(fn));
  }
}
