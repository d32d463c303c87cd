import { outlastError } from '../errors/error.ts';
import type { Redact } from '../task/redact.ts';
import type { Broker, Delivery } from '../broker/broker.ts';
import type { EvacuatedTask, Evacuation } from '../ledger/evacuation.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { BuryItem, Ledger } from '../ledger/ledger.ts';
import { letterBeside } from '../ledger/dead-letter.ts';
import { undecodable } from '../ledger/undecodable.ts';
import type { LeftBehind, ServedStore, TierStore } from '../ledger/tier-store.ts';
import { type Clock, type FaultPoint, sleep } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { type Keyring, NO_KEYS } from '../task/keyring.ts';
import { splitBody } from '../task/input.ts';
import { withCopies } from '../task/digest.ts';
import { PushWindows } from '../worker/flow/queue-windows.ts';

type OldBroker = Pick<Broker, 'take' | 'ack' | 'pushWithin' | 'silentMs'>;

export interface MoveParts {
  /** The stores of the old tier. */
  readonly old: {
    /** Null: it had no separate broker, or the broker stays the same. */
    readonly broker: OldBroker | null;
    readonly ledger: Pick<Ledger, 'condemn' | 'reap' | 'bury' | 'after'>;
    readonly reads: Pick<LedgerReads, 'sample' | 'states' | 'openChords'>;
    /** Null: the ledger stays where it is. */
    readonly evacuation: Evacuation | null;
  };
  readonly tiers: Pick<TierStore, 'moveIn' | 'endMove' | 'forget'>;
  /** Queues of the old broker. */
  readonly queues: readonly string[];
  /** The stores that are empty after a complete move. */
  readonly leaving: readonly ServedStore[];
  readonly clock: Clock;
  readonly faultPoint: FaultPoint;
  readonly redact: Redact | null;
  /** Left out: nothing has to be signed. */
  readonly keyring?: Keyring;
}

/** `busy`: workers of the old tier are alive; nothing was moved. `partly`: something is left. */
export interface MoveReport {
  readonly status: 'done' | 'busy' | 'partly';
  readonly workers: number;
  /** Of the broker. */
  readonly messages: number;
  /** Of the ledger. */
  readonly tasks: number;
  readonly deadLetters: number;
  readonly left: LeftBehind;
}

const AT_ONCE = 200;
/** A broker that pushes is empty when no message came for this long. */
const SILENCE_MS = 2_000;
/** A polled broker hides taken messages for five seconds: a killed move holds some of them until then. */
const LENT_MS = 7_000;
const LOOK_MS = 50;
/** A broker that shows no sign of its queues for this long is not reached: its silence says nothing. */
const REACHED_MS = 1_000;
/** A broker that was not reached for this long ends the move. */
const AWAY_MS = 30_000;
const NOTHING_LEFT: LeftBehind = { tasks: 0, dead: 0, followUps: 0, chords: 0 };

/**
 * Moves tasks that remain in a tier that is not configured any more into the outbox, from which relays hand them to the
 * current tier. Each task is first written there, in one transaction with a mark, and then deleted from the old tier: after a
 * kill in between the next move finds it in both, sees the mark and only deletes it. Messages go first: as long as the ledger
 * exists it knows which of them are copies of tasks that are over.
 */
export async function moveTier(parts: MoveParts): Promise<MoveReport> {
  const { old } = parts;
  const counts = { workers: 0, messages: 0, tasks: 0, deadLetters: 0 };
  if (old.evacuation !== null) {
    counts.workers = await bringBack(parts);
    if (counts.workers > 0) return { status: 'busy', ...counts, left: NOTHING_LEFT };
  }
  if (old.broker !== null) counts.messages = await moveMessages(parts, old.broker);
  if (old.evacuation === null) {
    await finish(parts);
    return { status: 'done', ...counts, left: NOTHING_LEFT };
  }
  const moved = await moveTasks(parts, old.evacuation);
  const left = await leftIn(parts, moved.unreadable);
  const isEmpty = Object.values(left).every(count => count === 0);
  if (isEmpty) await finish(parts);
  const { tasks, deadLetters } = moved;
  return { status: isEmpty ? 'done' : 'partly', ...counts, tasks, deadLetters, left };
}

async function finish({ tiers, leaving, faultPoint }: MoveParts): Promise<void> {
  await faultPoint('move.emptied-not-forgotten');
  for (const store of leaving) await tiers.forget(store);
  await tiers.endMove();
}

/** Tasks of dead workers wait again. Returns how many workers are alive. */
async function bringBack({ old: { ledger, reads } }: MoveParts): Promise<number> {
  await ledger.condemn({ kind: 'expired' });
  while ((await ledger.reap(AT_ONCE)).more);
  return (await reads.sample(0)).workers;
}

async function moveMessages(parts: MoveParts, broker: OldBroker): Promise<number> {
  const { queues, clock } = parts;
  const silenceMs = broker.pushWithin ? SILENCE_MS : LENT_MS;
  const demand = { concurrency: AT_ONCE, queues: queues.length, ackOn: 'commit' } as const;
  broker.pushWithin?.(new PushWindows(clock, demand));
  let moved = 0;
  let reachedAt = clock.monotonic();
  for (let silentSince = reachedAt; clock.monotonic() - silentSince < silenceMs;) {
    const deliveries = await broker.take(queues, AT_ONCE);
    if (deliveries.length > 0) {
      moved += await moveDeliveries(deliveries, parts);
      await parts.faultPoint('move.messages-in-not-acked');
      await broker.ack(deliveries);
      // Only now: a process that was held up meanwhile has not listened.
      silentSince = reachedAt = clock.monotonic();
      continue;
    }
    if (isReached(broker, queues)) reachedAt = clock.monotonic();
    else silentSince = clock.monotonic();
    if (clock.monotonic() - reachedAt > AWAY_MS) throw brokerAway();
    await sleep(clock, LOOK_MS);
  }
  return moved;
}

function isReached(broker: OldBroker, queues: readonly string[]): boolean {
  const silentMs = broker.silentMs ? broker.silentMs(queues) : 0;
  return silentMs !== null && silentMs < REACHED_MS;
}

const brokerAway = (): Error =>
  outlastError('ERR_BROKER_UNAVAILABLE', {
    message: 'the old broker cannot be reached, or one of its queues cannot be read',
    hint: 'Nothing was forgotten. Check the broker and its permissions, and run the command again.',
    fields: { scope: 'connection' },
  });

/**
 * Messages that the ledger knows move with it, or are over. One that no worker would have taken stays out of the outbox: there
 * it would keep the task whose id it names from being moved, and a relay signs anew what is signed, however old it is.
 */
async function moveDeliveries(
  deliveries: readonly Delivery[],
  { old: { ledger, reads }, tiers, redact, clock, keyring = NO_KEYS }: MoveParts,
): Promise<number> {
  const envelopes: Envelope[] = [];
  const letters: BuryItem[] = [];
  for (const { message } of deliveries) {
    if ('raw' in message) {
      letters.push(undecodable(message, redact));
      continue;
    }
    const refusal = keyring.refusalOnArrival(message, clock.now());
    if (refusal === null) envelopes.push(message);
    else letters.push(letterBeside(withCopies(message, redact), 'ERR_DIGEST', refusal));
  }
  for (const letter of letters) await ledger.bury([letter]);
  const states = await reads.states(envelopes.map(({ id }) => id));
  const unknown = envelopes.filter((_, index) => states[index] === null);
  const tasks = unknown.map(envelope => ({ envelope, epoch: 0, dueInMs: 0, death: null }));
  if (tasks.length > 0) await tiers.moveIn(tasks);
  return tasks.length;
}

async function moveTasks(
  { tiers, faultPoint }: Pick<MoveParts, 'tiers' | 'faultPoint'>,
  evacuation: Evacuation,
): Promise<{ readonly tasks: number; readonly deadLetters: number; readonly unreadable: number }> {
  const counts = { tasks: 0, deadLetters: 0 };
  for (let unreadable = 0; ;) {
    const listed = await evacuation.list(unreadable + AT_ONCE);
    const movable = listed.filter(({ envelope }) => splitBody(envelope.body) !== null);
    unreadable = listed.length - movable.length;
    if (movable.length === 0) return { ...counts, unreadable };
    await tiers.moveIn(movable);
    await faultPoint('move.tasks-in-not-ended');
    for (const task of movable) {
      if (counts.tasks + counts.deadLetters > 0) await faultPoint('move.mid-end');
      if ((await evacuation.end(task.envelope.id, task.epoch)) !== 'ok') continue;
      counts[isDead(task) ? 'deadLetters' : 'tasks'] += 1;
    }
  }
}

const isDead = ({ death }: EvacuatedTask): boolean => death !== null;

async function leftIn({ old: { ledger, reads } }: MoveParts, dead: number): Promise<LeftBehind> {
  const { running } = (await reads.sample(0)).tasks;
  // A negative age: all of them.
  const followUps = (await ledger.after.list(-60_000, AT_ONCE)).length;
  const chords = (await reads.openChords(1)).open;
  return { tasks: running, dead, followUps, chords };
}
