import { isOutlastError } from '../errors/error.ts';
import type { FleetPlace } from '../broker/fleet.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { safeKey, safeName } from '../task/names.ts';
import { readOptions } from '../task/read-options.ts';
import type { Redact } from '../task/redact.ts';
import { type ControlRequest, isTruthy } from '../wire/control-message.ts';
import type { Worker } from '../worker/worker.ts';
import type { LamportClock, NodeIdentity } from './event-sender.ts';
import { type WaitingTasks, requestInfo, scheduledInfo } from './request-info.ts';
import {
  type Revocations,
  type RevokedStamps,
  matchingStamps,
  pythonRepr,
  readStampedHeaders,
} from './revocations.ts';
import { brokerInfo, queueInfo, reportText, resourceUsage } from './worker-stats.ts';

/** The part of a worker that requests can read and control. */
export type SteeredWorker = Pick<Worker, 'runs' | 'queues' | 'takeFrom' | 'prefetch'>;

/**
 * What remote control may do: only inspect; also control, among the queues that this worker knows; or take from any queue. The
 * sender of a request cannot be verified.
 */
export type ControlScope = 'inspect' | 'on' | 'full';

export interface PanelDeps {
  readonly scope: ControlScope;
  /** Queues that the configuration or the tasks of this worker name. */
  readonly knownQueues: readonly string[];
  readonly worker: SteeredWorker;
  readonly node: NodeIdentity;
  readonly place: FleetPlace;
  readonly clock: LamportClock;
  readonly runtime: Runtime;
  readonly revocations: Revocations;
  readonly revokedStamps: RevokedStamps;
  readonly waiting: WaitingTasks;
  readonly redact: Redact | null;
  /** Names of the tasks that have a handler here. */
  readonly registered: readonly string[];
  readonly concurrency: number;
  readonly version: string;
  /** How often each task was begun here. */
  readonly totals: () => Readonly<Record<string, number>>;
  readonly eventsDropped: () => number;
  /** Switches task events; false: nothing changed. */
  readonly switchEvents: (isOn: boolean) => boolean;
  readonly heartbeat: () => void;
  readonly shutdown: () => void;
}

type Arguments = ControlRequest['arguments'];
type SteeredRun = SteeredWorker['runs'][number];
type Command = (given: Arguments) => unknown;

/** Weight of a queue that the configuration does not name. */
const ADDED_WEIGHT = 1;
const DEFAULT_SIGNAL = 'SIGTERM';
const MOST_SIGNAL_CHARS = 20;

/** Commands that affect tasks; all others only inspect. */
const STEERING: ReadonlySet<string> = new Set([
  'revoke',
  'terminate',
  'revoke_by_stamped_headers',
  'add_consumer',
  'cancel_consumer',
  'shutdown',
]);

const ok = (text: string): object => ({ ok: text });
const FIXED_POOL = { error: 'this worker cannot do that: it has the `concurrency` it began with' };

/** Celery's remote control: the answers of a node to each method, in Celery's format. */
export class Panel {
  readonly #deps: PanelDeps;
  readonly #startedAt: number;
  readonly #commands: ReadonlyMap<string, Command>;

  constructor(deps: PanelDeps) {
    this.#deps = deps;
    this.#startedAt = deps.runtime.clock.monotonic();
    this.#commands = this.#makeCommands();
  }

  /** The answer; an error is an answer too. */
  async answer({ method, arguments: given }: ControlRequest): Promise<unknown> {
    const command = this.#commands.get(method);
    // In the format of a Python worker, so that tools show the same.
    if (command === undefined) return { error: `KeyError('${method.slice(0, 100)}')` };
    if (this.#deps.scope === 'inspect' && STEERING.has(method))
      return this.#refuse(method, "worker.celeryControl is 'inspect' here; 'on' allows it");
    try {
      return await command(given);
    } catch (error) {
      this.#deps.runtime.log.warn({ error, method }, 'a remote control command failed');
      const text = isOutlastError(error) ? `${error.code}: ${error.message}` : String(error);
      return { error: text };
    }
  }

  /** As an answer, so that the caller sees why nothing happens. */
  #refuse(method: string, why: string): object {
    this.#deps.runtime.log.warn({ method }, 'a remote control command is refused');
    return { error: `${method} is refused: ${why}` };
  }

  #makeCommands(): ReadonlyMap<string, Command> {
    const { worker, clock, revocations, registered } = this.#deps;
    const active = (): unknown =>
      worker.runs.filter(run => !run.isWaiting).map(run => this.#describe(run));
    const tasks = (): unknown => [...registered].sort();
    return new Map<string, Command>([
      ['ping', () => ok('pong')],
      ['clock', () => ({ clock: clock.value })],
      ['hello', given => this.#hello(given)],
      ['active', active],
      ['dump_active', active],
      ['reserved', () => this.#reserved()],
      ['dump_reserved', () => this.#reserved()],
      ['scheduled', () => this.#scheduled()],
      ['dump_schedule', () => this.#scheduled()],
      ['registered', tasks],
      ['dump_tasks', tasks],
      ['revoked', () => revocations.ids],
      ['dump_revoked', () => revocations.ids],
      ['query_task', given => this.#query(given)],
      ['stats', () => this.#stats()],
      ['conf', () => this.#conf()],
      ['dump_conf', () => this.#conf()],
      ['report', () => ok(reportText(this.#deps.version))],
      [
        'rate_limit',
        given => this.#refuseOf(given, 'limits are `admission`, in the configuration'),
      ],
      ['time_limit', given => this.#refuseOf(given, 'a task has the timeouts of its contract')],
      ['pool_grow', () => FIXED_POOL],
      ['pool_shrink', () => FIXED_POOL],
      // What a Celery worker says that was started without these.
      ['pool_restart', () => ({ error: "ValueError('Pool restarts not enabled')" })],
      ['autoscale', () => ({ error: "ValueError('Autoscale not enabled')" })],
      ['active_queues', () => Object.keys(worker.queues).map(queueInfo)],
      ['revoke', given => this.#revoke(given, isTruthy(given['terminate']))],
      ['terminate', given => this.#revoke(given, true)],
      ['revoke_by_stamped_headers', given => this.#revokeByStamps(given)],
      ['add_consumer', given => this.#addConsumer(given)],
      ['cancel_consumer', given => this.#cancelConsumer(given)],
      ['enable_events', () => this.#switchEvents(true)],
      ['disable_events', () => this.#switchEvents(false)],
      ['heartbeat', () => this.#deps.heartbeat()],
      ['shutdown', () => this.#shutdown()],
    ]);
  }

  /** A Python worker that starts asks its neighbours for their revoked ids: ours are in the ledger. */
  #hello(given: Arguments): unknown {
    const { node, clock } = this.#deps;
    return given['from_node'] === node.name ? null : { revoked: {}, clock: clock.forward() };
  }

  #describe({ task, startedAt, isAcknowledged, isWaiting }: SteeredRun): object {
    const { clock } = this.#deps.runtime;
    const ranMs = clock.monotonic() - startedAt;
    const state = {
      startedAt: isWaiting ? null : (clock.now() - ranMs) / 1_000,
      isAcknowledged,
      isRedelivered: task.crashes > 0,
    };
    return requestInfo(task.envelope, state, this.#deps);
  }

  #query(given: Arguments): unknown {
    const wanted = new Set(idsOf(given['ids']));
    const found = this.#deps.worker.runs.filter(run => wanted.has(run.task.id));
    const stateOf = ({ isWaiting }: SteeredRun): string => (isWaiting ? 'reserved' : 'active');
    return Object.fromEntries(
      found.map(run => [run.task.id, [stateOf(run), this.#describe(run)]] as const),
    );
  }

  /** Tasks that are here and have not started: begun and without a slot, or prefetched. The rest waits at the broker. */
  #reserved(): unknown {
    const { worker } = this.#deps;
    const state = { startedAt: null, isAcknowledged: false, isRedelivered: false };
    return [
      ...worker.runs.filter(run => run.isWaiting).map(run => this.#describe(run)),
      ...worker.prefetch.envelopes.map(envelope => requestInfo(envelope, state, this.#deps)),
    ];
  }

  #scheduled(): unknown {
    const { waiting, runtime } = this.#deps;
    return waiting.list(runtime.clock.now()).map(task => scheduledInfo(task, this.#deps));
  }

  #stats(): unknown {
    const { node, clock, runtime, place, concurrency, totals, eventsDropped } = this.#deps;
    return {
      total: totals(),
      pid: node.pid,
      clock: String(clock.value),
      uptime: Math.floor((runtime.clock.monotonic() - this.#startedAt) / 1_000),
      pool: {
        implementation: 'outlast',
        'max-concurrency': concurrency,
        processes: [node.pid],
      },
      broker: brokerInfo(place),
      prefetch_count: concurrency,
      rusage: resourceUsage(),
      events_dropped: eventsDropped(),
    };
  }

  /** What Flower shows of a worker, under Celery's names. Nothing of it is secret. */
  #conf(): unknown {
    const { place, concurrency, worker } = this.#deps;
    const { transport, hostname, port, virtualHost } = place;
    return {
      broker_url: `${transport}://${hostname}:${port}/${encodeURIComponent(virtualHost)}`,
      worker_concurrency: concurrency,
      task_queues: Object.keys(worker.queues),
      task_serializer: 'json',
      result_serializer: 'json',
      accept_content: ['json'],
      task_acks_late: true,
      timezone: 'UTC',
    };
  }

  /** As Celery answers for a task that it does not have; for others, what to do instead. */
  #refuseOf(given: Arguments, instead: string): object {
    const isKnown = this.#deps.registered.includes(String(given['task_name']));
    return { error: isKnown ? `this worker cannot do that: ${instead}` : 'unknown task' };
  }

  async #revoke(given: Arguments, isTerminating: boolean): Promise<unknown> {
    const { worker, revocations, runtime } = this.#deps;
    const ids = idsOf(given['task_id']).map(id => safeKey(id, 'the id of a task'));
    runtime.log.info({ tasks: ids.length, isTerminating }, 'tasks are revoked by remote control');
    const running = new Set(worker.runs.map(run => run.task.id));
    await revocations.revoke(ids, isTerminating ? signalOf(given) : null, () => worker.runs);
    if (!isTerminating) return ok(`tasks ${ids.join(', ')} flagged as revoked`);
    const ended = ids.filter(id => running.has(id));
    return ok(ended.length === 0 ? 'terminate: tasks unknown' : `terminate: ${ended.join(', ')}`);
  }

  /** Celery's way: a task with such a stamp is revoked when it is about to start, and one that runs only if asked for. */
  async #revokeByStamps(given: Arguments): Promise<unknown> {
    const { worker, revocations, revokedStamps, runtime } = this.#deps;
    const headers = readStampedHeaders(given['headers']);
    const isTexts = Array.isArray(given['headers']);
    const asked = pythonRepr(
      isTexts
        ? Object.fromEntries([...headers].map(([name, [value]]) => [name, value]))
        : given['headers'],
    );
    runtime.log.info({ headers: asked }, 'tasks are revoked by their stamps');
    revokedStamps.add(headers);
    if (!isTruthy(given['terminate']))
      return ok(`headers ${asked} flagged as revoked, but not terminated`);
    const running = worker.runs.map(({ task }) => ({
      id: task.id,
      stamps: matchingStamps(headers, readOptions(task.envelope).stamps),
    }));
    const hit = running.filter(({ stamps }) => stamps.length > 0);
    const ids = hit.map(({ id }) => id);
    await revocations.revoke(ids, signalOf(given), () => worker.runs);
    const stamps = new Map(hit.flatMap(run => run.stamps));
    if (stamps.size === 0) return ok(`headers ${asked} were not terminated`);
    return ok(`headers ${pythonRepr(Object.fromEntries(stamps))} revoked`);
  }

  /** A task from a queue of another application would become a dead letter here, and be lost there. */
  #addConsumer(given: Arguments): unknown {
    const { worker, runtime, scope, knownQueues } = this.#deps;
    const queue = queueOf(given);
    if (scope !== 'full' && !knownQueues.includes(queue))
      return this.#refuse(
        'add_consumer',
        `neither worker.queues nor a task of this worker names ${queue}; worker.celeryControl: 'full' allows any queue`,
      );
    runtime.log.info({ queue }, 'a queue is taken from, by remote control');
    if (!Object.hasOwn(worker.queues, queue))
      worker.takeFrom({ ...worker.queues, [queue]: ADDED_WEIGHT });
    return ok(`add consumer ${queue}`);
  }

  #cancelConsumer(given: Arguments): unknown {
    const { worker, runtime } = this.#deps;
    const queue = queueOf(given);
    runtime.log.info({ queue }, 'a queue is not taken from any more, by remote control');
    const { [queue]: _left, ...others } = worker.queues;
    worker.takeFrom(others);
    return ok(`no longer consuming from ${queue}`);
  }

  #switchEvents(isOn: boolean): unknown {
    const isChanged = this.#deps.switchEvents(isOn);
    return ok(`task events ${isChanged ? '' : 'already '}${isOn ? 'enabled' : 'disabled'}`);
  }

  /** A Python worker does not answer this one, and `celery control shutdown` treats that as a failure. */
  #shutdown(): unknown {
    this.#deps.runtime.log.warn({}, 'draining, by remote control');
    this.#deps.shutdown();
    return ok('draining');
  }
}

function idsOf(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const ids = list.filter(id => typeof id === 'string');
  if (ids.length < list.length || ids.length === 0) throw new TypeError('it needs ids of tasks');
  return [...new Set(ids)];
}

/** Only for the event about it: here every signal is an abort. */
function signalOf({ signal }: Arguments): string {
  return typeof signal === 'string' ? signal.slice(0, MOST_SIGNAL_CHARS) : DEFAULT_SIGNAL;
}

const queueOf = (given: Arguments): string => safeName(given['queue'] as string, 'queue');
