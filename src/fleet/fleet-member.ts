import type { Fleet, RequestMessage } from '../broker/fleet.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { ResultStore } from '../result/result-store.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Redact } from '../task/redact.ts';
import { readRequest, writeReply, type ControlRequest } from '../wire/control-message.ts';
import type { RunObserver } from '../worker/run-observer.ts';
import type { Worker } from '../worker/worker.ts';
import { EventSender, type NodeIdentity } from './event-sender.ts';
import { LamportClock } from './lamport-clock.ts';
import { isMeantFor } from './match-node.ts';
import { Panel } from './panel.ts';
import { Revocations } from './revocations.ts';
import { endedEvent, receivedEvent, revokedEvent, type TaskEvent } from './task-events.ts';
import { HEARTBEAT_SECONDS, vitals } from './worker-stats.ts';

export interface FleetMemberSettings {
  /** Events are sent from the start; otherwise when somebody asks for them. */
  readonly isTellingEvents: boolean;
  /** Requests are heard and answered. */
  readonly isListening: boolean;
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
  /** Told when somebody has asked for the end of this worker, before it drains. */
  readonly onShutdown: () => void;
}

/** Clocks on the wall differ; a request that is older than this is nobody's wish any more. */
const LATEST_MS = 10_000;
/** Whoever asks more at once than this gets no answer. */
const MOST_UNDER_WAY = 100;
/** How long the last answers and events may take. */
const GOODBYE_MS = 1_000;

/** One worker as Celery's tools see it: a node that tells what happens and answers questions. */
export class FleetMember {
  readonly #deps: FleetMemberDeps;
  readonly #clock = new LamportClock();
  readonly #events: EventSender;
  readonly #revocations: Revocations;
  /** How often each task was begun; of those that nobody here knows there may be any number. */
  readonly #totals: Map<string, number>;
  #processed = 0;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  #isTellingWorker: boolean;
  #isTellingTasks: boolean;
  #active = (): number => 0;

  constructor(deps: FleetMemberDeps) {
    const { fleet, runtime, node, settings } = deps;
    this.#deps = deps;
    this.#totals = new Map(settings.registered.map(name => [name, 0]));
    this.#isTellingWorker = settings.isTellingEvents;
    this.#isTellingTasks = settings.isTellingEvents;
    this.#events = new EventSender(fleet, runtime, node, this.#clock);
    this.#revocations = new Revocations({ ...deps, tell: event => this.#tell(() => event) });
  }

  /** Hears of every run of the worker. Nothing that fails here reaches a task. */
  readonly observer: RunObserver = {
    parked: envelope => this.#tell(() => receivedEvent(envelope, 0, this.#deps.redact)),
    held: ({ id }) => this.#revocations.onHeld(id),
    expired: ({ id }) => this.#tell(() => revokedEvent(id, { isExpired: true })),
    started: ({ id, envelope, failures }) => {
      this.#count(envelope.name);
      this.#tell(() => receivedEvent(envelope, failures, this.#deps.redact));
      this.#tell(() => ({ type: 'task-started', fields: { uuid: id } }));
    },
    settled: (task, settlement, ranMs) => {
      const isResultShown = this.#deps.redact === null;
      this.#tell(() => endedEvent(task, settlement, { ranMs, isResultShown }));
      const isRetried = settlement.kind === 'fail' && settlement.delayMs !== null;
      this.#revocations.onSettled(task.id, isRetried);
    },
    lost: ({ id }) => this.#revocations.onLost(id),
  };

  /** Runs the worker as a member: from its first sign to its last. */
  async run(worker: Worker, signal: AbortSignal, retire?: AbortSignal): Promise<void> {
    const { fleet, settings } = this.#deps;
    this.#active = () => worker.runs.length;
    const panel = this.#makePanel(worker);
    if (settings.isListening) fleet.listen(message => this.#hear(message, panel));
    void this.#tellWorker('worker-online');
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
      registered: settings.registered,
      concurrency: settings.concurrency,
      totals: () => Object.fromEntries([...this.#totals].filter(([, count]) => count > 0)),
      eventsDropped: () => this.#events.dropped,
      switchEvents: isOn => this.#switchEvents(isOn),
      heartbeat: () => void this.#tellWorker('worker-heartbeat'),
      shutdown: () => {
        onShutdown();
        this.#ending.abort();
      },
    });
  }

  /** As with Celery, switching them off leaves the signs of life on. */
  #switchEvents(isOn: boolean): boolean {
    if (this.#isTellingTasks === isOn) return false;
    this.#isTellingTasks = isOn;
    if (isOn && !this.#isTellingWorker) {
      this.#isTellingWorker = true;
      void this.#tellWorker('worker-online');
    }
    return true;
  }

  #hear({ headers, body }: RequestMessage, panel: Panel): void {
    const request = readRequest(headers, body);
    if (request === null) return;
    this.#clock.adjust(request.clock);
    const { expiresMs } = request;
    const isLate = expiresMs !== null && expiresMs + LATEST_MS < this.#deps.runtime.clock.now();
    if (isLate || !isMeantFor(this.#deps.node.name, request)) return;
    if (this.#underWay.size >= MOST_UNDER_WAY) return;
    const answering = this.#answer(request, panel).finally(() => this.#underWay.delete(answering));
    this.#underWay.add(answering);
  }

  async #answer(request: ControlRequest, panel: Panel): Promise<void> {
    const { fleet, node, runtime } = this.#deps;
    const { replyTo, method } = request;
    try {
      const answer = (await panel.answer(request)) ?? null;
      if (replyTo === null) return;
      const { routingKey, ticket } = replyTo;
      const reply = writeReply(node.name, answer, { ticket, clock: this.#clock.forward() });
      await fleet.answer({ routingKey, ...reply });
    } catch (error) {
      runtime.log.warn({ error, method }, 'a remote control command could not be answered');
    }
  }

  #count(name: string): void {
    this.#processed += 1;
    const count = this.#totals.get(name);
    if (count !== undefined) this.#totals.set(name, count + 1);
  }

  #tell(make: () => TaskEvent | null): void {
    if (!this.#isTellingTasks) return;
    try {
      const event = make();
      if (event !== null) this.#events.tell(event.type, event.fields);
    } catch (error) {
      this.#deps.runtime.log.warn({ error }, 'an event could not be made');
    }
  }

  async #tellWorker(type: string): Promise<void> {
    if (!this.#isTellingWorker) return;
    const fields = vitals(this.#active(), this.#processed, this.#deps.settings.version);
    await this.#events.tellNow(type, { ...fields });
  }

  #beat(): () => void {
    const { clock } = this.#deps.runtime;
    let cancel = (): void => undefined;
    const next = (): void => {
      cancel = clock.timer(HEARTBEAT_SECONDS * 1_000, () => {
        void this.#tellWorker('worker-heartbeat');
        next();
      });
    };
    next();
    return () => cancel();
  }

  /** Says goodbye, for a moment: a broker that is away learns it from the missing heartbeats. */
  async #leave(): Promise<void> {
    const { clock } = this.#deps.runtime;
    const patience = new AbortController();
    const last = this.#events.flush().then(() => this.#tellWorker('worker-offline'));
    await Promise.race([
      Promise.all([last, ...this.#underWay]).then(() => patience.abort()),
      sleep(clock, GOODBYE_MS, patience.signal),
    ]);
    this.#events.stop();
    await this.#deps.fleet.close();
  }
}
