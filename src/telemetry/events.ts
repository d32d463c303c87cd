/** Where in its life a task was when something happened to it. */
export type Where = 'relay' | 'worker';

interface TaskEvent {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
}

/** What an event says about an error that a store has kept. */
export interface EventError {
  readonly type: string;
  readonly message: string;
}

/**
 * Every event and what it carries. Emitted at least once, in the process where it happens. Milliseconds are rounded to
 * thousandths.
 */
export interface EventMap {
  /** The task of a slot was committed to the outbox. `slot` is ISO text. */
  'schedule:fired': { readonly schedule: string; readonly slot: string; readonly id: string };
  /** Slots were skipped: late ones, or because the task before was not over. */
  'schedule:missed': { readonly schedule: string; readonly slots: number };
  /** It cannot be read, or its task cannot be written; the others go on. */
  'schedule:failed': { readonly schedule: string; readonly error: unknown };
  'task:created': TaskEvent;
  /** `latencyMs`: since it was due. Null: a statement moved its row without a look at its age. */
  'task:sent': TaskEvent & { readonly latencyMs: number | null };
  /** `waitedMs`: in this worker. `lagMs`: since it was created or due; null where its id does not tell. */
  'task:started': TaskEvent & {
    readonly epoch: number;
    readonly attempt: number;
    readonly waitedMs: number;
    readonly lagMs: number | null;
  };
  /** Its soft timeout is over, and it runs on. */
  'task:soft-timeout': TaskEvent & { readonly attempt: number; readonly softTimeoutMs: number };
  'task:retried': TaskEvent & {
    readonly attempt: number;
    readonly delayMs: number;
    readonly error: unknown;
  };
  /** `attempt`: the one that failed, from 1. `durationMs`: how long the handler ran; null: it was a publish. */
  'task:failed': TaskEvent & {
    readonly where: Where;
    readonly attempt: number;
    readonly durationMs: number | null;
    readonly error: unknown;
  };
  /**
   * A run was given back because something it needs is away (`what`): no attempt is spent, and it comes again after
   * `delayMs`. `releases` counts how often that happened to the task in this worker.
   */
  'task:released': TaskEvent & {
    readonly what: string;
    readonly why: string;
    readonly releases: number;
    readonly delayMs: number;
  };
  /** `durationMs`: of the handler. `totalMs`: since it was created or due; null where its id does not tell. */
  'task:done': TaskEvent & {
    readonly epoch: number;
    readonly attempt: number;
    readonly waitedMs: number;
    readonly durationMs: number;
    readonly totalMs: number | null;
  };
  /** A handler has saved progress. */
  'task:checkpointed': TaskEvent & { readonly bytes: number };
  /** A message of a task that the ledger had already: it was turned away. */
  'task:duplicate': TaskEvent;
  /** A run that had lost its task wanted to write how it ended, and was refused. */
  'task:stale': TaskEvent & {
    readonly epoch: number;
    readonly status: 'stale' | 'absent';
    readonly settlement: string;
  };
  /** Another task with the same idempotency key had run: this one ended with its result. */
  'task:deduplicated': TaskEvent & { readonly key: string; readonly original: string };
  'task:discarded': TaskEvent & { readonly why: string };
  'task:cancelled': TaskEvent;
  'task:expired': TaskEvent;
  'task:dead-lettered': TaskEvent & {
    readonly where: Where;
    readonly reason: string;
    /** Null: the process that reports it does not know the last error. */
    readonly error: EventError | null;
  };
  /** A worker has no handler for it, or one for older payloads only: it waits for a worker that can run it. */
  'task:refused': TaskEvent & { readonly worker: string };
  /** `how` and `why`: how its worker ended; null where the process that reports it was not told. */
  'task:resurrected': TaskEvent & {
    readonly resurrections: number;
    readonly worker: string | null;
    readonly how: string | null;
    readonly why: string;
  };
  /** One claimed or moved batch. `deferred`: rows left for later without a retry: an outage, or a limit. */
  'relay:batch': {
    readonly rows: number;
    readonly published: number;
    readonly failed: number;
    readonly dead: number;
    readonly deferred: number;
    /** Rows given back, because the relay stops or the broker is left alone. */
    readonly released: number;
    /** Rows that a claim had held before: failed or deferred ones, and those of dead relays. */
    readonly again: number;
    readonly durationMs: number;
  };
  'relay:breaker-opened': { readonly cooldownMs: number; readonly error: string };
  'relay:breaker-closed': Readonly<Record<never, never>>;
  'relay:claim-lost': { readonly token: string; readonly rows: number };
  /**
   * A limit is reached. `push` and `admit` throw; a relay leaves the row for later; a worker gives the task back. `key`
   * is `store:memory` when the store itself has no capacity.
   */
  'admission:rejected': TaskEvent & {
    readonly where: 'push' | 'admit' | Where;
    readonly key: string;
    readonly retryAfterMs: number;
  };
  /** Limits have let a task in. `keys`: those it was counted under. */
  'admission:admitted': TaskEvent & {
    readonly where: 'push' | 'admit' | Where;
    readonly keys: readonly string[];
  };
  /** A redactor failed, so the arguments are hidden. `error` is its kind, not its text. */
  'redaction:failed': { readonly name: string; readonly error: string };
  /** `how`: the kind of its end; `why`: the same for people. */
  'worker:lost': {
    readonly worker: string;
    readonly how: string | null;
    readonly why: string;
  };
  'worker:drained': {
    readonly worker: string;
    readonly released: number;
    readonly durationMs: number;
  };
  'worker:lease-lost': { readonly worker: string };
}

/** The names of all events. */
export type EventName = keyof EventMap;
export interface EventSink {
  <N extends EventName>(name: N, event: EventMap[N]): void;
  /**
   * False: there is no listener and no log line for it, so that the event need not be made. For events of every task, where
   * it costs more than a short handler. Left out: every event is heard.
   */
  readonly isHeard?: (name: EventName) => boolean;
}
/** A function that is called with each event of one name. */
export type EventListener<N extends EventName> = (event: EventMap[N]) => void;
/** Listeners by the name of their event, as `on` in the configuration has them. */
export type EventListeners = { readonly [N in EventName]?: EventListener<N> };

export const noEvents: EventSink = () => undefined;

/** Calls listeners one by one; one that throws is reported and changes nothing. */
export class Events {
  readonly #listeners = new Map<EventName, Set<(event: never) => void>>();
  readonly #onError: (error: unknown, name: EventName) => void;

  constructor(onError: (error: unknown, name: EventName) => void) {
    this.#onError = onError;
  }

  /** Subscribes and returns the undo. */
  on<N extends EventName>(
    name: N,
    listener: EventListener<N>,
    options?: { readonly signal?: AbortSignal },
  ): () => void {
    if (options?.signal?.aborted) return () => undefined;
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set);
    set.add(listener);
    const undo = (): void => void set.delete(listener);
    options?.signal?.addEventListener('abort', undo, { once: true });
    return undo;
  }

  addAll(listeners: EventListeners): void {
    for (const [name, listener] of Object.entries(listeners)) {
      this.on(name as EventName, listener as EventListener<EventName>);
    }
  }

  readonly emit: EventSink = Object.assign(
    <N extends EventName>(name: N, event: EventMap[N]): void => {
      for (const listener of this.#listeners.get(name) ?? [])
        this.#call(name, listener as EventListener<N>, event);
    },
    { isHeard: (name: EventName): boolean => (this.#listeners.get(name)?.size ?? 0) > 0 },
  );

  #call<N extends EventName>(name: N, listener: EventListener<N>, event: EventMap[N]): void {
    const report = (error: unknown): void => this.#onError(error, name);
    try {
      // A listener may be async: its rejection is a throw that comes later.
      const answer: unknown = listener(event);
      if (answer instanceof Promise) answer.catch(report);
    } catch (error) {
      report(error);
    }
  }
}
