import type { BegunTask } from '../../ledger/ledger.ts';
import { CONTEXT_HEADER, contextIn, type ContextValues } from '../../task/context-headers.ts';
import type { SendRest, Task, TaskShape } from '../../task/define-task.ts';
import type { EnvelopeOptions } from '../../task/envelope.ts';
import { decodeJson, toText } from '../../task/json.ts';
import { slotIn, type ScheduleSlot } from '../../task/schedule-headers.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { TaskContext } from '../context.ts';

/** What a context needs from its run. */
export interface RunOperations {
  readonly log: Logger;
  /** The current epoch: it may have been raised since the run began. */
  epoch(): number;
  hard(): AbortSignal;
  soft(): AbortSignal;
  checkpoint(data: unknown): Promise<void>;
  transaction<T>(fn: (tx: unknown) => Promise<T>, step: string): Promise<T>;
  send<F extends TaskShape>(task: Task<F>, rest: SendRest<F>): Promise<string>;
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({});

/** What a handler gets. Everything is created on first access: a short handler needs next to nothing. */
export class RunContext implements TaskContext {
  readonly input: unknown;
  readonly #task: BegunTask;
  readonly #options: EnvelopeOptions;
  readonly #operations: RunOperations;
  #log: Logger | null = null;
  #context: ContextValues | null = null;

  constructor(
    task: BegunTask,
    input: unknown,
    options: EnvelopeOptions,
    operations: RunOperations,
  ) {
    this.#task = task;
    this.input = input;
    this.#options = options;
    this.#operations = operations;
  }

  get id(): string {
    return this.#task.id;
  }

  get name(): string {
    return this.#task.envelope.name;
  }

  get queue(): string {
    return this.#task.envelope.queue;
  }

  get rootId(): string {
    return this.#options.rootId ?? this.#task.id;
  }

  get headers(): Readonly<Record<string, string>> {
    const { headers = NO_HEADERS } = this.#options;
    if (!(CONTEXT_HEADER in headers)) return headers;
    const { [CONTEXT_HEADER]: _list, ...theirs } = headers;
    return theirs;
  }

  get context(): ContextValues {
    return (this.#context ??= contextIn(this.#options.headers));
  }

  get schedule(): ScheduleSlot | null {
    return slotIn(this.headers);
  }

  get attempt(): number {
    return this.#task.failures + 1;
  }

  get resurrections(): number {
    return this.#task.crashes;
  }

  get epoch(): number {
    return this.#operations.epoch();
  }

  get fence(): number {
    return this.#operations.epoch();
  }

  get signal(): AbortSignal {
    return this.#operations.hard();
  }

  get softSignal(): AbortSignal {
    return this.#operations.soft();
  }

  get deadline(): Date | null {
    const { deadlineMs } = this.#options;
    return deadlineMs === undefined ? null : new Date(deadlineMs);
  }

  get log(): Logger {
    const { id, epoch } = this.#task;
    const { name } = this;
    const fields = { ...this.context, task: id, name, epoch };
    return (this.#log ??= this.#operations.log.child(fields));
  }

  get lastCheckpoint(): unknown {
    const { checkpoint } = this.#task;
    return checkpoint === null ? undefined : decodeJson(toText(checkpoint));
  }

  // Bound functions, so that a handler may destructure its context.
  get checkpoint(): TaskContext['checkpoint'] {
    return data => this.#operations.checkpoint(data);
  }

  get transaction(): TaskContext['transaction'] {
    return (fn, options) => this.#operations.transaction(fn, options?.step ?? 'main');
  }

  get send(): TaskContext['send'] {
    return (task, ...rest) => this.#operations.send(task, rest);
  }
}
