import type { TaskState } from '../../ledger/ledger.ts';

/**
 * The layout of a ledger record in Redis, for both sides: `redis-record.ts` reads it, and `scripts/embed-assets.mjs`
 * embeds it into the .lua files (`-- include: record-positions`, `STATE_WAITING`, `STEP_BEGUN`). Stored records have
 * this form: members may be appended, never changed.
 */

/** A record is an array. Its members in order, counted from 1, as in Lua. */
export const RECORD_GROUPS = [
  ['state', 'epoch', 'run', 'owner', 'settled'],
  ['name', 'queue', 'priority', 'version', 'digest'],
  ['eta', 'expires', 'options', 'body'],
  ['failures', 'crashes', 'budget', 'due', 'seq'],
  ['created', 'history', 'checkpointEpoch', 'checkpointSeq'],
  ['deaths', 'ending', 'ended', 'why', 'error', 'result', 'keep'],
] as const;

type Member = (typeof RECORD_GROUPS)[number][number];

export const POSITIONS = Object.freeze(
  Object.fromEntries(RECORD_GROUPS.flat().map((member, index) => [member, index + 1])),
) as Readonly<Record<Member, number>>;

/** The types of these members, group by group: text, number; in capitals: or false. A result (`R`) may be missing. */
export const RECORD_SHAPE: string = ['tnttt', 'ttnnt', 'NNtT', 'nnnnn', 'ntnn', 'ntnttRn'].join('');

/** States as written in a record. */
export const RECORD_STATES: Readonly<Record<TaskState, string>> = Object.freeze({
  waiting: 'w',
  running: 'r',
  done: 'd',
  dead: 'x',
  cancelled: 'c',
});

/** Steps as written in a record's history: one letter each. */
export const HISTORY_STEPS = {
  arrived: 'a',
  begun: 'b',
  done: 'd',
  discarded: 'i',
  failed: 'f',
  crashed: 'h',
  dead: 'x',
  released: 'r',
  reaped: 'p',
  buried: 'u',
  revived: 'v',
  cancelled: 'c',
  expired: 'e',
  purged: 'g',
  refused: 'n',
} as const;

/** The script's answers about each message that a worker begins. */
export const BEGIN_ANSWERS = {
  begun: 1,
  held: 2,
  done: 3,
  expired: 4,
  conflict: 5,
  begunNew: 6,
} as const;

/** Longer bodies have a separate key, so that a step that only moves a task does not carry them. */
export const INLINE_BYTES = 1_024;
