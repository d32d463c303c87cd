import type { Definition } from './definition.ts';
import type { Trigger } from './trigger.ts';

/** What is done about a schedule that is due. */
export interface Decision {
  /** Slots whose tasks are sent now, oldest first. */
  readonly slots: readonly number[];
  /** Slots that are skipped. */
  readonly missed: number;
  readonly nextSlotMs: number | null;
}

export type Policy = Pick<Definition, 'catchUp' | 'maxCatchUp' | 'graceMs'>;

/** Most tasks of one transaction. */
const MOST_AT_ONCE = 1_000;
/** A slot a second, for the longest grace. */
const MOST_ON_TIME = 3_601;
/** Skipped slots are counted up to here: after a year of silence there may be millions. */
const MOST_COUNTED = 500;

/**
 * Slots that are no later than `grace` fire, all of them. Of later ones `skip` fires none, `one` the newest if nothing else
 * fires, `all` the newest `maxCatchUp`.
 */
export function decide(trigger: Trigger, policy: Policy, fromMs: number, nowMs: number): Decision {
  const onTimeFromMs = Math.max(fromMs, nowMs - policy.graceMs);
  const onTime = trigger.newest(MOST_ON_TIME, onTimeFromMs, nowMs);
  const lateUntilMs = onTimeFromMs - 1;
  const wanted = onTime.length > 0 && policy.catchUp === 'one' ? 0 : limitOf(policy);
  const late = trigger.newest(wanted, fromMs, lateUntilMs);
  const skipsNone = late.length < wanted;
  const missed = skipsNone
    ? 0
    : trigger.newest(MOST_COUNTED + wanted, fromMs, lateUntilMs).length - late.length;
  const slots = [...late, ...onTime];
  const rest = slots[MOST_AT_ONCE];
  return {
    slots: slots.slice(0, MOST_AT_ONCE),
    missed,
    // The clock may have been set back since the schedule was due: what has fired is not next.
    nextSlotMs: rest ?? trigger.next(Math.max(nowMs, fromMs - 1)),
  };
}

function limitOf({ catchUp, maxCatchUp }: Policy): number {
  if (catchUp === 'skip') return 0;
  return catchUp === 'one' ? 1 : maxCatchUp;
}
