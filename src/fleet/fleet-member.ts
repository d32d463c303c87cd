import type { Fleet, RequestMessage } from '../broker/fleet.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { ResultStore } from '../result/result-store.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import type { Redact } from '../task/redact.ts';
import { type ControlRequest, readRequest, writeReply } from '../wire/control-message.ts';
import type { RunObserver } from '../worker/run-observer.ts';
import type { Worker } from '../worker/worker.ts';
import {
  EventSender,
  LamportClock,
  type NodeIdentity,
  type TaskEvent,
  endedEvent,
  receivedEvent,
  revokedEvent,
} from './event-sender.ts';
import { addressOf } from './match-node.ts';
import { type ControlScope, Panel } from './panel.ts';
import { RequestBudget } from './request-budget.ts';
import { Revocations, RevokedStamps } from './revocations.ts';
import { WaitingTasks } from './request-info.ts';
import { HEARTBEAT_SECONDS, vitals } from './worker-stats.ts';

export interface FleetMemberSettings {
  /** Events are sent from the start; otherwise when a tool asks for them. */
  readonly sendsEvents: boolean;
  /** What requests may do; null: none is accepted. */
  readonly control: ControlScope | null;
  /** Queues that the configuration or the tasks of this worker name. */
  readonly knownQueues: readonly string[];
  readonly concurrency: number;
  readonly version: string;
  /** Names of the tasks that have a handler here. */
  readonly registered: readonly string[];
}

export interface FleetMemberDeps {
  readonly fleet: Fleet;
  readonly node: NodeIdentity;
  readonly ledger: Pick<Ledger, 'cancel'>;
  readonly results: ResultStore;
  readonly runtime: Runtime;
  readonly redact: Redact | null;
  readonly settings: FleetMemberSettings;
  /** Called when a tool has asked this worker to end, before it drains. */
  readonly onShutdown: () => void;
}

/** Wall clocks differ; a request that is older than this is ignored. */
const LATEST_MS = 10_000;
/** The limit of requests in progress; beyond it requests get no answer. */
const MOST_UNDER_WAY = 100;
/** How long the last answers and events may take. */
const LEAVE_MS = 1_000;
/** The size on the wire: the most that `readRequest` takes, in base64 and with its headers. */
const MOST_REQUEST_BYTES = 1_572_864;
/** Ignored requests are logged at most this often. */
const WARN_EVERY_MS = 60_000;

/** One worker as Celery's tools see it: a node that sends events and answers requests. */
export class FleetMember {
  readonly #deps: FleetMemberDeps;
  readonly #clock = new LamportClock();
  readonly #events: EventSender;
  readonly #revocations: Revocations;
  readonly #revokedStamps = new RevokedStamps();
  readonly #waiting = new WaitingTasks();
  /** How often each task was begun; only tasks with a handler here are counted, as unknown names have no limit. */
  readonly #totals: Map<string, number>;
  #processed = 0;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  readonly #budget: RequestBudget;
  #passedOver = 0;
  #warnedAt = -Infinity;
  #sendsWorkerEvents: boolean;
  #sendsTaskEvents: boolean;
  #active = (): number => 0;

  constructor(deps: FleetMemberDeps) {
    const { fleet, runtime, node, settings } = deps;
    this.#deps = deps;
    this.#totals = new Map(settings.registered.map(name => [name, 0]));
    this.#sendsWorkerEvents = settings.sendsEvents;
    this.#sendsTaskEvents = settings.sendsEvents;
    this.#budget = new RequestBudget(runtime.clock);
    this.#events = new EventSender(fleet, runtime, node, this.#clock);
    this.#revocations = new Revocations({
      ...deps,
      emit: event => this.#emit(() => event),
      onCancelled: id => this.#waiting.forget(id),
    });
  }

  /** Observes every run of the worker. An error here never reaches a task. */
  readonly observer: RunObserver = {
    parked: envelope => {
      this.#waiting.note(envelope, envelope.etaMs ?? 0);
      this.#emit(() => receivedEvent(envelope, 0, this.#deps.redact));
    },
    starting: ({ id, envelope }) => {
      if (this.#revokedStamps.isEmpty || !this.#hasRevokedStamp(envelope)) return null;
      return this.#revocations.revokeStarting(id);
    },
    held: ({ id }) => this.#revocations.onHeld(id),
    expired: ({ id }) => this.#emit(() => revokedEvent(id, { isExpired: true })),
    started: ({ id, envelope, failures }) => {
      this.#count(envelope.name);
      this.#emit(() => receivedEvent(envelope, failures, this.#deps.redact));
      this.#emit(() => ({ type: 'task-started', fields: { uuid: id } }));
    },
    settled: (task, settlement, ranMs) => {
      const isResultShown = this.#deps.redact === null;
      this.#emit(() => endedEvent(task, settlement, { ranMs, isResultShown }));
      const isRetried = settlement.kind === 'fail' && settlement.delayMs !== null;
      if (isRetried)
        this.#waiting.note(
          task.envelope,
          this.#deps.runtime.clock.now() + (settlement.delayMs ?? 0),
        );
      this.#revocations.onSettled(task.id, isRetried);
    },
    lost: ({ id }) => this.#revocations.onLost(id),
  };

  /** Runs the worker as a member: from `worker-online` to `worker-offline`. */
  async run(worker: Worker, signal: AbortSignal, retire?: AbortSignal): Promise<void> {
    const { fleet, settings } = this.#deps;
    this.#active = () => worker.runs.length;
    const panel = this.#makePanel(worker);
    if (settings.control !== null) fleet.listen(message => this.#onRequest(message, panel));
    void this.#emitWorker('worker-online');
    const stopBeating = this.#beat();
    try {
      await worker.run(AbortSignal.any([signal, this.#ending.signal]), retire);
    } finally {
      stopBeating();
      await this.#leave();
    }
  }

  #makePanel(worker: Worker): Panel {
    const { node, fleet, settings, onShutdown } = this.#deps;
    return new Panel({
      ...this.#deps,
      worker,
      node,
      place: fleet.place,
      clock: this.#clock,
      revocations: this.#revocations,
      revokedStamps: this.#revokedStamps,
      waiting: this.#waiting,
      registered: settings.registered,
      scope: settings.control ?? 'inspect',
      knownQueues: settings.knownQueues,
      concurrency: settings.concurrency,
      version: settings.version,
      totals: () => Object.fromEntries([...this.#totals].filter(([, count]) => count > 0)),
      eventsDropped: () => this.#events.dropped,
      switchEvents: isOn => this.#switchEvents(isOn),
      heartbeat: () => void this.#emitWorker('worker-heartbeat'),
      shutdown: () => {
        onShutdown();
        this.#ending.abort();
      },
    });
  }

  /** As with Celery, switching them off leaves the heartbeats on. */
  #switchEvents(isOn: boolean): boolean {
    if (this.#sendsTaskEvents === isOn) return false;
    this.#sendsTaskEvents = isOn;
    if (isOn && !this.#sendsWorkerEvents) {
      this.#sendsWorkerEvents = true;
      void this.#emitWorker('worker-online');
    }
    return true;
  }

  #onRequest(message: RequestMessage, panel: Panel): void {
    if (message.bytes > MOST_REQUEST_BYTES || !this.#budget.allows(message.bytes))
      return this.#passOver();
    const parts = message.read();
    const request = parts === null ? null : readRequest(parts.headers, parts.body);
    if (request === null) return;
    this.#clock.adjust(request.clock);
    const { expiresMs } = request;
    const isLate = expiresMs !== null && expiresMs + LATEST_MS < this.#deps.runtime.clock.now();
    if (isLate || this.#underWay.size >= MOST_UNDER_WAY) return;
    const addressed = addressOf(this.#deps.node.name, request);
    if (addressed === 'others') return;
    const answer = addressed === 'us' ? () => panel.answer(request) : refuse(addressed.refusal);
    const answering = this.#answer(request, answer).finally(() => this.#underWay.delete(answering));
    this.#underWay.add(answering);
  }

  #passOver(): void {
    const { clock, log } = this.#deps.runtime;
    this.#passedOver += 1;
    if (clock.monotonic() - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = clock.monotonic();
    const fields = { requests: this.#passedOver };
    log.warn(fields, 'more remote control commands than a worker answers; some were passed over');
  }

  async #answer(request: ControlRequest, make: () => Promise<unknown>): Promise<void> {
    const { fleet, node, runtime } = this.#deps;
    const { replyTo, method } = request;
    try {
      const answer = (await make()) ?? null;
      if (replyTo === null) return;
      const { routingKey, ticket } = replyTo;
      const reply = writeReply(node.name, answer, { ticket, clock: this.#clock.forward() });
      await fleet.answer({ routingKey, ...reply });
    } catch (error) {
      runtime.log.warn({ error, method }, 'a remote control command could not be answered');
    }
  }

  #hasRevokedStamp(envelope: Envelope): boolean {
    try {
      return this.#revokedStamps.matches(readOptions(envelope).stamps);
    } catch {
      // Its run finds out that the options cannot be read.
      return false;
    }
  }

  #count(name: string): void {
    this.#processed += 1;
    const count = this.#totals.get(name);
    if (count !== undefined) this.#totals.set(name, count + 1);
  }

  #emit(make: () => TaskEvent | null): void {
    if (!this.#sendsTaskEvents) return;
    try {
      const event = make();
      if (event !== null) this.#events.send(event.type, event.fields);
    } catch (error) {
      this.#deps.runtime.log.warn({ error }, 'an event could not be made');
    }
  }

  async #emitWorker(type: string): Promise<void> {
    if (!this.#sendsWorkerEvents) return;
    const fields = vitals(this.#active(), this.#processed, this.#deps.settings.version);
    await this.#events.sendNow(type, { ...fields });
  }

  #beat(): () => void {
    const { clock } = this.#deps.runtime;
    let cancel = (): void => undefined;
    const next = (): void => {
      cancel = clock.timer(HEARTBEAT_SECONDS * 1_000, () => {
        void this.#emitWorker('worker-heartbeat');
        next();
      });
    };
    next();
    return () => cancel();
  }

  /** Sends the last event, within a limit: if the broker is away, tools notice the missing heartbeats. */
  async #leave(): Promise<void> {
    const { clock } = this.#deps.runtime;
    const grace = new AbortController();
    const last = this.#events.flush().then(() => this.#emitWorker('worker-offline'));
    await Promise.race([
      Promise.all([last, ...this.#underWay]).then(() => grace.abort()),
      sleep(clock, LEAVE_MS, grace.signal),
    ]);
    this.#events.stop();
    await this.#deps.fleet.close();
  }
}

const refuse = (why: string) => (): Promise<unknown> => Promise.resolve({ error: why });
