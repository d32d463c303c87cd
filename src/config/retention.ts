import { durationMs, type Duration } from '../task/duration.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

/** What is deleted automatically, and when. */
export interface RetentionOptions {
  readonly deadLetters?: DeadLetterRetention | undefined;
}

/** All given conditions must hold; one age must be given. */
export interface DeadLetterRetention {
  /** Since its death. */
  readonly olderThanDead?: Duration | undefined;
  /** Since it was sent. */
  readonly olderThanCreated?: Duration | undefined;
  /** A glob with `*` and `?`. @default every task */
  readonly taskName?: string | undefined;
}

/** Which dead letters a resurrector deletes; null: none. */
export interface ResolvedRetention {
  readonly deadLetters: {
    readonly olderThanDeadMs: number | null;
    readonly olderThanCreatedMs: number | null;
    readonly taskName: string | null;
  } | null;
}

const AGES = ['olderThanDead', 'olderThanCreated'] as const;

/** Checks the retention section of a config. */
export function readRetention(value: unknown): ResolvedRetention {
  const given = dropUndefined(asRecord(value ?? {}, 'retention'));
  refuseUnknown(Object.keys(given), ['deadLetters'], key => `retention.${key}`);
  if (!('deadLetters' in given)) return { deadLetters: null };
  const option = 'retention.deadLetters';
  const letters = dropUndefined(asRecord(given['deadLetters'], option));
  refuseUnknown(Object.keys(letters), [...AGES, 'taskName'], key => `${option}.${key}`);
  const [olderThanDeadMs, olderThanCreatedMs] = AGES.map(age =>
    age in letters ? Math.round(durationMs(letters[age] as Duration, `${option}.${age}`)) : null,
  ) as [number | null, number | null];
  if (olderThanDeadMs === null && olderThanCreatedMs === null) {
    throw rangeError(option, 'has no age', "Say when: { olderThanDead: '30d' }.");
  }
  const { taskName = null } = letters;
  if (taskName !== null && (typeof taskName !== 'string' || taskName === '')) {
    throw rangeError(`${option}.taskName`, `is ${shown(taskName)}`, "Use a text: 'shop.*'.");
  }
  return { deadLetters: { olderThanDeadMs, olderThanCreatedMs, taskName } };
}
