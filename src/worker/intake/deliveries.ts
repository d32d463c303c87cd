import type { Broker, Delivery } from '../../broker/broker.ts';
import { isUnavailable } from '../../errors/error.ts';
import { letterBeside, reportBuried } from '../../ledger/dead-letter.ts';
import type {
  BeginOpen,
  BuryItem,
  Ledger,
  MessageAnswer,
  ParkItem,
  TaskRef,
} from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import { type Keyring, NO_KEYS } from '../../task/keyring.ts';
import type { Redact } from '../../task/redact.ts';
import { withCopies } from '../../task/digest.ts';
import { canMap } from '../celery-tasks.ts';
import { type Abilities, canRun } from '../handler.ts';
import { keepHeaders } from '../../wire/headers.ts';
import {
  type AnswerRefusedDeps,
  answerRefused,
  buryRefused,
  buryUndecodable,
} from './refused-messages.ts';
import type { RunObserver } from '../run-observer.ts';
import type { Heartbeat } from '../lease/heartbeat.ts';
import type { Intake } from './intake.ts';
import type { Prefetch } from '../flow/prefetch.ts';

export interface DeliveryDeps {
  readonly ledger: Pick<Ledger, 'bury' | 'park' | 'recordNeverSent'>;
  readonly broker: Broker;
  readonly runtime: Runtime;
  readonly observer?: RunObserver;
  /** Not null: a message without redacted copies gets them before the ledger has it. */
  readonly redact: Redact | null;
  /** Left out: nothing has to be signed. */
  readonly keyring?: Keyring;
  /** Answers the callers of messages that cannot be read. Left out: no caller waits at a queue. */
  readonly followUps?: NonNullable<AnswerRefusedDeps['followUps']>;
}

/** A message that can be begun. */
export interface Beginnable {
  readonly delivery: Delivery;
  readonly envelope: Envelope;
}

/** The worker that takes deliveries, and what it can run. */
export interface Taker {
  readonly worker: string;
  readonly runnable: Abilities['runnable'];
}

export interface Accepted {
  readonly beginnable: readonly Beginnable[];
  /** How many were not due, or have no handler here. */
  readonly parked: number;
}

/**
 * Sorts deliveries: a message that cannot be read or must not run is buried, one that is not due is parked, one that this
 * worker cannot run is set aside, and all of them are acknowledged because the ledger has them then. The rest can be begun.
 * Signatures are verified here, before the ledger knows the id: a message that must not run must not occupy the record of
 * the task whose id it names.
 */
export async function acceptDeliveries(
  deliveries: readonly Delivery[],
  { worker, runnable }: Taker,
  deps: DeliveryDeps,
): Promise<Accepted> {
  const beginnable: Beginnable[] = [];
  let parked = 0;
  const settled: Delivery[] = [];
  const refused: ParkItem[] = [];
  const early: ParkItem[] = [];
  // One call for all: a sender that floods a queue with refused messages must not slow down the others.
  const letters: BuryItem[] = [];
  const { keyring = NO_KEYS } = deps;
  for (const delivery of deliveries) {
    const { message } = delivery;
    const refusal =
      'raw' in message ? null : keyring.refusalOnArrival(message, deps.runtime.clock.now());
    if ('raw' in message) {
      await buryUndecodable(message, deps);
      await answerRefused(message, deps);
      settled.push(delivery);
    } else if (refusal !== null) {
      letters.push(letterBeside(withCopies(message, deps.redact), 'ERR_DIGEST', refusal));
      settled.push(delivery);
    } else if (!canRun(message, runnable) || !canMap(message, runnable)) {
      const envelope = keepHeaders(withCopies(message, deps.redact), message);
      refused.push({ envelope, delayMs: null, refusedBy: worker });
      settled.push(delivery);
    } else if (message.etaMs !== null && message.etaMs > deps.runtime.clock.now()) {
      // By the store's clock it may be due after all, or the other way round: `begin` checks again.
      early.push({ envelope: withCopies(message, deps.redact), delayMs: null });
      settled.push(delivery);
    } else {
      beginnable.push({ delivery, envelope: withCopies(message, deps.redact) });
    }
  }
  if (early.length > 0) {
    // Together: messages that are due wait behind them in the queue.
    for (const { envelope } of await parkAll(early, deps)) deps.observer?.parked(envelope);
    parked += early.length;
  }
  if (refused.length > 0) {
    await parkAll(refused, deps);
    parked += refused.length;
    const tasks = refused.map(({ envelope }) => envelope);
    reportRefused(tasks, worker, deps);
  }
  if (letters.length > 0) {
    await deps.ledger.bury(letters);
    reportBuried(letters, deps.runtime.emit);
  }
  if (settled.length > 0) await deps.broker.ack(settled);
  return { beginnable, parked };
}

/** This worker cannot run them: the ledger keeps them for one that can. */
function reportRefused(
  tasks: readonly TaskRef[],
  worker: string,
  { runtime }: Pick<DeliveryDeps, 'runtime'>,
): void {
  for (const { id, name, queue } of tasks)
    runtime.emit('task:refused', { id, name, queue, worker });
  const told = reportedEnd(runtime);
  for (const { name } of tasks) {
    if (told.has(name) || told.size === MOST_TOLD) continue;
    told.add(name);
    runtime.log.warn(
      { task: name, worker },
      'no handler here for this task; left to other workers. Further ones of this name are not reported',
    );
  }
}

/** Two services on one queue meet each other's tasks all the time: each name is reported once in a process. */
const TOLD = new WeakMap<Runtime, Set<string>>();
/** Names come with messages: some sender could make up new ones for ever. */
const MOST_TOLD = 1_000;

function reportedEnd(runtime: Runtime): Set<string> {
  const told = TOLD.get(runtime) ?? new Set<string>();
  TOLD.set(runtime, told);
  return told;
}

/** All at once; if the store refuses that, one by one, because one of them is the cause. Returns those not buried. */
async function parkAll(
  items: readonly ParkItem[],
  deps: DeliveryDeps,
): Promise<readonly ParkItem[]> {
  try {
    await deps.ledger.park(items);
    return items;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    const parked: ParkItem[] = [];
    for (const item of items) if (await isParked(item, deps)) parked.push(item);
    return parked;
  }
}

/** False: the store can never take it, so it was buried, and does not block the others. */
async function isParked(item: ParkItem, deps: DeliveryDeps): Promise<boolean> {
  try {
    await deps.ledger.park([item]);
    return true;
  } catch (error) {
    if (isUnavailable(error) || !(await buryRefused(item.envelope, error, deps))) throw error;
    return false;
  }
}

/** What was given to `begin`, and its answers. */
export interface Begun {
  readonly given: readonly Beginnable[];
  readonly answers: readonly MessageAnswer[];
  /** By index: messages that the store can never take, each with its error. */
  readonly unstorable?: ReadonlyMap<number, unknown>;
  /** The ledger was given the delivery tags, and has acknowledged the messages that it has. */
  readonly isAcknowledged: boolean;
}

/** The deliveries of begun tasks by id, and those that could be neither begun nor buried. */
export interface Answered {
  readonly begun: ReadonlyMap<string, Delivery>;
  readonly unanswered: readonly Delivery[];
}

const NONE: ReadonlyMap<number, unknown> = new Map();

/**
 * Acknowledges what the ledger has already; the deliveries of begun tasks wait until their run is settled. A ledger that
 * acknowledges by itself has done both: only messages that must be buried first are left.
 */
async function answerDeliveries(
  { given, answers, isAcknowledged, unstorable = NONE }: Begun,
  deps: DeliveryDeps,
): Promise<Answered> {
  const begun = new Map<string, Delivery>();
  const unanswered: Delivery[] = [];
  let settled: Delivery[] = [];
  for (const [index, { delivery, envelope }] of given.entries()) {
    if (unstorable.has(index)) {
      if (await buryRefused(envelope, unstorable.get(index), deps)) settled.push(delivery);
      else unanswered.push(delivery);
      continue;
    }
    switch (answers[index]) {
      case 'begun':
        // A second copy in the same batch: the run of the first one answers for the task.
        if (begun.has(envelope.id)) {
          reportDuplicate(envelope, deps);
          settled.push(delivery);
        } else begun.set(envelope.id, delivery);
        break;
      case 'conflict':
        if (await isBuried(envelope, deps)) settled.push(delivery);
        else unanswered.push(delivery);
        break;
      // Waiting, running, done or ended: once it is begun, only the ledger brings a task back.
      case 'held':
        deps.observer?.held(envelope);
        reportDuplicate(envelope, deps);
        settled.push(delivery);
        break;
      case 'expired':
        reportExpired([envelope], deps);
        settled.push(delivery);
        break;
      case 'done':
        reportDuplicate(envelope, deps);
        settled.push(delivery);
        break;
      case undefined:
        unanswered.push(delivery);
    }
  }
  if (isAcknowledged) {
    const isConflict = (at: number): boolean => answers[at] === 'conflict' || unstorable.has(at);
    deps.broker.forget?.(given.filter((_, at) => !isConflict(at)).map(({ delivery }) => delivery));
    const buried = new Set(given.filter((_, at) => isConflict(at)).map(({ delivery }) => delivery));
    settled = settled.filter(delivery => buried.has(delivery));
    begun.clear();
  }
  // Begun tasks must start whatever happens to the copies: an ack that fails brings them back, to be acked then.
  if (settled.length > 0) await deps.broker.ack(settled).catch(() => undefined);
  return { begun, unanswered };
}

/** Reports the tasks that `begin` has met and not begun. */
export function reportUnbegun(
  { expired, refused, unreadable = [] }: Pick<BeginOpen, 'expired' | 'refused' | 'unreadable'>,
  worker: string,
  deps: DeliveryDeps,
): void {
  if (expired.length > 0) reportExpired(expired, deps);
  if (refused.length > 0) reportRefused(refused, worker, deps);
  if (unreadable.length > 0) reportUnreadable(unreadable, deps);
}

/** Some other program has written to the store: more of its records may follow. */
function reportUnreadable(tasks: readonly TaskRef[], { runtime }: DeliveryDeps): void {
  const ids = tasks.map(({ id }) => id);
  runtime.log.error(
    { tasks: ids },
    'records of the ledger cannot be read; they are dead letters now',
  );
  const reason = 'ERR_UNDECODABLE';
  for (const { id, name, queue } of tasks)
    runtime.emit('task:dead-lettered', { id, name, queue, where: 'worker', reason, error: null });
}

function reportDuplicate({ id, name, queue }: Envelope, { runtime }: DeliveryDeps): void {
  runtime.emit('task:duplicate', { id, name, queue });
}

/** Too late to begin. */
function reportExpired(tasks: readonly TaskRef[], deps: DeliveryDeps): void {
  for (const { id, name, queue } of tasks) {
    deps.runtime.emit('task:expired', { id, name, queue });
    deps.observer?.expired({ id, name, queue });
  }
}

async function isBuried(envelope: Envelope, deps: DeliveryDeps): Promise<boolean> {
  try {
    // A digest conflict (same id, other bytes): stored beside the task, so that it neither runs nor vanishes.
    const message = `another task has the id ${envelope.id} with other bytes`;
    const letter = letterBeside(envelope, 'ERR_DIGEST', message);
    await deps.ledger.bury([letter]);
    reportBuried([letter], deps.runtime.emit);
    return true;
  } catch (error) {
    deps.runtime.log.warn(
      { error, task: envelope.id },
      'a message with the id of another task could not be buried; it is kept for a while',
    );
    return false;
  }
}

export interface MessageCustodyParts {
  readonly broker: Pick<Broker, 'giveBack'>;
  readonly heartbeat: Pick<Heartbeat, 'lastBeatAt'>;
  readonly intake: Intake;
  readonly prefetch: Prefetch;
}

/** Handles messages between the broker and the ledger: those that the ledger takes, and those that it does not. */
export class MessageCustody {
  readonly #parts: MessageCustodyParts;

  constructor(parts: MessageCustodyParts) {
    this.#parts = parts;
  }

  /** Returns the messages that can be begun; the ledger has the others. */
  async accept(
    taken: readonly Delivery[],
    taker: Taker,
    deps: DeliveryDeps,
  ): Promise<readonly Beginnable[]> {
    const { intake } = this.#parts;
    if (taken.length === 0) return [];
    try {
      const { beginnable, parked } = await acceptDeliveries(taken, taker, deps);
      if (parked > 0) intake.took();
      else if (beginnable.length === 0) intake.unproven();
      return beginnable;
    } catch (error) {
      // The ledger did not take the messages that cannot run now: only this worker can answer for them.
      intake.keep(taken, error);
      throw error;
    }
  }

  /** The deliveries of begun tasks, by id. */
  async answer(begun: Begun, deps: DeliveryDeps): Promise<ReadonlyMap<string, Delivery>> {
    if (begun.given.length > 0) this.#parts.intake.took();
    const { begun: byId, unanswered } = await answerDeliveries(begun, deps);
    if (unanswered.length > 0) this.#parts.prefetch.shelve(unanswered);
    return byId;
  }

  /**
   * These were not begun. `error` is null if the ledger gave no final answer: the worker leaves, or has lost its
   * incarnation, and with it the right to everything it holds. Returns null.
   */
  async setBack(
    deliveries: readonly Beginnable[],
    error: Error | null,
    askedAt: number,
  ): Promise<null> {
    const { intake, prefetch, heartbeat, broker } = this.#parts;
    const copies = deliveries.map(({ delivery }) => delivery);
    if (copies.length === 0) return null;
    if (error === null) {
      intake.unproven();
      await broker.giveBack(copies);
      return null;
    }
    intake.keep(copies, error);
    // The ledger does not get our heartbeats either: another worker may reach it.
    if (heartbeat.lastBeatAt() <= askedAt) await prefetch.giveBack();
    return null;
  }
}
