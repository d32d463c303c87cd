import type { Broker } from '../../broker/broker.ts';
import { isOutlastError } from '../../errors/error.ts';
import { routing, type Destinations } from '../../ledger/destinations.ts';
import { afterDone, afterEnded, isFollowed, type FollowDeps } from '../../ledger/follow-up.ts';
import {
  endedKey,
  type AfterEntry,
  type BegunTask,
  type FollowUp,
  type Ledger,
} from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { NO_KEYS, type Keyring } from '../../task/keyring.ts';
import type { Redact } from '../../task/redact.ts';
import { BUILTIN_NAMES } from '../celery-tasks.ts';
import type { Handler } from '../handler.ts';
import { buried, type Settlement } from './settlement.ts';

interface Deps {
  readonly broker: Pick<Broker, 'reply'>;
  readonly ledger: Pick<Ledger, 'countsWithCelery'>;
  readonly runtime: Pick<Runtime, 'clock'>;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly redact: Redact | null;
  readonly keyring?: Keyring;
  readonly destinations?: Destinations;
}

const NOTHING: readonly never[] = [];

export interface PlannedEnd {
  readonly settlement: Settlement;
  readonly followUps: readonly FollowUp[];
}

/** The settlement of a run, and the follow-ups that its commit writes: a run with more than may be sent is buried. */
export function planFollowUps(settlement: Settlement, task: BegunTask, deps: Deps): PlannedEnd {
  try {
    return { settlement, followUps: followUpsOf(settlement, task, deps) };
  } catch (error) {
    if (!isOutlastError(error, 'ERR_FOLLOW_UPS_TOO_LARGE')) throw error;
    return { settlement: buried(error.code, error.message), followUps: NOTHING };
  }
}

function followUpsOf(
  settlement: Settlement,
  { envelope, epoch }: BegunTask,
  deps: Deps,
): readonly FollowUp[] {
  if (settlement.kind !== 'commit' || !hasFollowers(envelope, deps)) return NOTHING;
  const { outcome, value } = settlement;
  return outcome.kind === 'done'
    ? afterDone(envelope, value, followDeps(deps))
    : afterEnded({ envelope, how: 'discarded', epoch, why: outcome.why }, followDeps(deps));
}

/** The follow-up that the ledger has written by itself, because the task is dead. */
export function owedOfDeath(
  settlement: Settlement,
  { envelope }: BegunTask,
  epoch: number,
  deps: Deps,
): readonly AfterEntry[] {
  const isDead =
    settlement.kind === 'bury' || (settlement.kind === 'fail' && settlement.delayMs === null);
  if (!isDead || settlement.reason === 'ERR_DIGEST' || !hasFollowers(envelope, deps))
    return NOTHING;
  const { error } = settlement;
  return [{ key: endedKey(envelope.id, epoch), ended: { envelope, how: 'dead', epoch, error } }];
}

export function followDeps(deps: Deps): FollowDeps {
  const { runtime, handlers, redact, broker, keyring, ledger, destinations } = deps;
  return {
    nowMs: runtime.clock.now(),
    // Celery's own tasks are routed as any other.
    queueOf: name =>
      BUILTIN_NAMES.has(name) ? null : (handlers.get(name)?.task.contract.queue ?? null),
    redact,
    keyring: keyring ?? NO_KEYS,
    answers: broker.reply !== undefined,
    countsWithCelery: ledger.countsWithCelery === true,
    ...routing(destinations),
  };
}

function hasFollowers(envelope: BegunTask['envelope'], { broker }: Deps): boolean {
  return isFollowed(envelope, { answers: broker.reply !== undefined });
}
