import type { KeyFigures } from '../admission/admission-store.ts';
import type { Limit } from '../admission/limits.ts';
import type { Consumer } from '../ledger/control-store.ts';
import type { TaskRecordView } from '../ledger/task-line.ts';
import type { RowView } from '../outbox/outbox-reads.ts';
import { spoken } from '../telemetry/checkup.ts';

/** Every answer to the question why a task is not running, or how it went. */
export const WHY_ANSWERS = {
  unknown: 'No store knows the id: never committed, in a queue of the broker, or forgotten.',
  'due-in-outbox': 'It is due in the outbox, and a process that moves rows on is alive.',
  'no-relay': 'It is due in the outbox, and no process is alive that moves rows on.',
  claimed: 'A relay has it and is publishing it.',
  'claim-lost': 'The relay that had it is gone; the next one takes it.',
  'waiting-for-eta': 'It was sent for a later time.',
  'publish-retry': 'The broker refused it; a relay tries again later.',
  unroutable: 'No queue takes it: a queue or a binding is missing.',
  'broker-away': 'A relay has put it off: the broker cannot be used, and its breaker may be open.',
  'rate-limited': 'A relay has put it off: the rate of an admission key is used up.',
  'behind-ordering-key': 'An earlier task with the same ordering key comes first.',
  'parked-ordering-key': 'A dead letter with the same ordering key stands in front of it.',
  'newer-format': 'The row is in a format of a newer version, and waits for such a relay.',
  published: 'The broker has it; the row waits for the end of the task.',
  due: 'It is due, and a worker takes from its queue.',
  'queue-paused': 'Its queue is paused.',
  'no-consumer': 'No living worker takes from its queue.',
  'retry-at': 'It failed or crashed, and is run again later.',
  'admission-limited': 'All reservations of an admission key are taken.',
  'no-handler': 'No worker that saw it had a handler for it, or for its version.',
  suspect: 'It crashed several workers, so it waits until no other such task runs.',
  running: 'A worker runs it.',
  'worker-lost':
    'The worker that ran it does not report any more; it is brought back when its lease is over.',
  done: 'It is done.',
  discarded: 'Its handler discarded it.',
  dead: 'It is a dead letter.',
  cancelled: 'It was cancelled.',
  expired: 'Its time was over before it began.',
} as const;

/** The answers that `why` can give. */
export type WhyCode = keyof typeof WHY_ANSWERS;

/** Why a task is not running, and what to do about it. */
export interface WhyAnswer {
  readonly id: string;
  readonly code: WhyCode;
  /** One sentence, with the names and figures of this task. */
  readonly message: string;
  /** What to do about it; null: nothing. */
  readonly advice: string | null;
  readonly details: Readonly<Record<string, string | number | null>>;
}

/** Everything an answer is made of. */
export interface WhyFacts {
  readonly id: string;
  readonly row: RowView | null;
  readonly record: TaskRecordView | null;
  /** A dead letter of a relay. */
  readonly letter: { readonly error: string; readonly deadAt: string } | null;
  /** Whether a broker stands between outbox and ledger: then relays publish, else workers move rows. */
  readonly hasBroker: boolean;
  readonly paused: readonly string[];
  readonly consumers: readonly Consumer[];
  /** The limits that the task is under, and the figures of their keys. */
  readonly limits: readonly Limit[];
  readonly figures: readonly KeyFigures[];
}

type Said = Omit<WhyAnswer, 'id'>;

export function explain(facts: WhyFacts): WhyAnswer {
  return { id: facts.id, ...said(facts) };
}

function said(facts: WhyFacts): Said {
  const { row, record, letter } = facts;
  if (record !== null) return ofRecord(record, facts);
  if (row !== null) return ofRow(row, facts);
  if (letter !== null)
    return answer('dead', `no relay could publish it: ${letter.error}`, RETRY_LETTER, {
      deadAt: letter.deadAt,
    });
  const where = facts.hasBroker
    ? 'was never committed, is in a queue of the broker'
    : 'was never committed';
  return answer(
    'unknown',
    `neither outbox nor ledger knows it: it ${where}, or has been forgotten`,
    null,
    {},
  );
}

function answer(
  code: WhyCode,
  message: string,
  advice: string | null,
  details: Said['details'],
): Said {
  return { code, message, advice, details };
}

const RETRY_LETTER = 'npx outlast dead-letters show ID, then retry ID.';
/** The beginning of what a broker says of a message that it returned. */
const UNROUTABLE = /^no queue takes it/;

function ofRow(row: RowView, facts: WhyFacts): Said {
  if (!row.isSupported)
    return answer(
      'newer-format',
      WHY_ANSWERS['newer-format'],
      'Start a relay of the version that sent it.',
      {},
    );
  if (row.state === 'sent') return answer('published', WHY_ANSWERS.published, null, {});
  if (row.state === 'claimed') {
    const details = { relay: row.claimedBy };
    if (!row.isClaimOver)
      return answer('claimed', `${row.claimedBy ?? 'a relay'} is publishing it`, null, details);
    return answer(
      'claim-lost',
      `${row.claimedBy ?? 'a relay'} had it and is gone`,
      'Start a relay: npx outlast relay.',
      details,
    );
  }
  if (row.behind !== null) return behind(row, row.behind);
  return Date.parse(row.availableAt) > row.nowMs ? ofLaterRow(row, facts) : ofDueRow(row, facts);
}

function behind({ orderingKey }: RowView, { id, isParked }: NonNullable<RowView['behind']>): Said {
  const details = { orderingKey, behind: id };
  const key = `ordering key ${orderingKey ?? ''}`;
  if (isParked)
    return answer(
      'parked-ordering-key',
      `${key} is parked behind the dead letter ${id}`,
      `npx outlast dead-letters retry ${id}, or purge it.`,
      details,
    );
  return answer(
    'behind-ordering-key',
    `${id} comes first under ${key}`,
    `npx outlast tasks why ${id}`,
    details,
  );
}

function ofLaterRow(row: RowView, { limits, figures }: WhyFacts): Said {
  const { availableAt, retries, lastError } = row;
  const inMs = Date.parse(availableAt) - row.nowMs;
  const at = `at ${availableAt}, in ${spoken(inMs)}`;
  const details = { availableAt, inMs, retries, lastError };
  if (row.etaAt !== null && Date.parse(row.etaAt) > row.nowMs)
    return answer(
      'waiting-for-eta',
      `it was sent for ${row.etaAt}, in ${spoken(Date.parse(row.etaAt) - row.nowMs)}`,
      null,
      { etaAt: row.etaAt, inMs },
    );
  if (retries > 0) {
    const isLost = UNROUTABLE.test(lastError ?? '');
    const message = `publishing failed ${retries} times and is tried again ${at}: ${lastError ?? ''}`;
    return isLost
      ? answer(
          'unroutable',
          message,
          'Declare the queue and its binding, or start a worker of it.',
          details,
        )
      : answer('publish-retry', message, null, details);
  }
  const used = limits.find(({ key, rate }) => rate !== null && isUsedUp(figures, key));
  if (used !== undefined)
    return answer(
      'rate-limited',
      `the rate of admission key ${used.key} is used up; tried again ${at}`,
      'npx outlast admission',
      { ...details, key: used.key },
    );
  return answer(
    'broker-away',
    `a relay could not reach the broker, or its queue; tried again ${at}`,
    'See the log of the relay, and npx outlast doctor.',
    details,
  );
}

const isUsedUp = (figures: readonly KeyFigures[], key: string): boolean =>
  figures.some(one => one.key === key && (one.available ?? 1) < 1);

function ofDueRow(row: RowView, { hasBroker, consumers }: WhyFacts): Said {
  const dueMs = row.nowMs - Date.parse(row.availableAt);
  const [movers, start] = hasBroker
    ? [row.relays, 'npx outlast relay']
    : [Math.max(consumers.length, row.relays), 'npx outlast worker'];
  const details = { dueMs, movers };
  const due = `it has been due in the outbox for ${spoken(dueMs)}`;
  if (movers > 0) return answer('due-in-outbox', due, null, details);
  const what = hasBroker ? 'no relay is alive' : 'no worker is alive, which would move it on';
  return answer('no-relay', `${due}, and ${what}`, `Start one: ${start}.`, details);
}

function ofRecord(record: TaskRecordView, facts: WhyFacts): Said {
  switch (record.state) {
    case 'running':
      return ofRun(record, facts);
    case 'dead': {
      const message = `dead because of ${record.reason ?? ''}: ${record.error ?? ''}`;
      const { reason, failures, crashes, endedAt } = record;
      return answer('dead', message, RETRY_LETTER, { reason, failures, crashes, endedAt });
    }
    case 'waiting':
      return ofWaiting(record, facts);
    default:
      return ofEnd(record);
  }
}

function ofEnd({ ending, endedAt, error, epoch }: TaskRecordView): Said {
  const code = ending ?? 'done';
  const details = { endedAt, epoch };
  if (code === 'discarded')
    return answer(code, `discarded at ${endedAt ?? ''}: ${error ?? ''}`, null, details);
  return answer(code, `${code} at ${endedAt ?? ''}`, null, details);
}

function ofRun(record: TaskRecordView, { consumers }: WhyFacts): Said {
  const { worker, startedAt, epoch, nowMs, failures, crashes } = record;
  const forMs = startedAt === null ? 0 : nowMs - Date.parse(startedAt);
  const owner = consumers.find(one => one.worker === worker);
  const details = {
    worker,
    forMs,
    epoch,
    attempt: failures + 1,
    crashes,
    host: owner?.host ?? null,
    pid: owner?.pid ?? null,
  };
  if (owner === undefined)
    return answer(
      'worker-lost',
      `worker ${worker ?? ''} began it ${spoken(forMs)} ago under epoch ${epoch}, and does not report any more`,
      'It comes back by itself if a worker or a resurrector runs.',
      details,
    );
  const message = `runs on worker ${worker ?? ''} (${owner.host}, pid ${owner.pid}) for ${spoken(forMs)} under epoch ${epoch}`;
  return answer('running', message, null, details);
}

function ofWaiting(record: TaskRecordView, facts: WhyFacts): Said {
  const { queue, dueAt, nowMs, failures, crashes, error, refusedBy } = record;
  const inMs = Date.parse(dueAt ?? '') - nowMs;
  const details = { queue, dueAt, inMs, failures, crashes };
  const full = facts.limits.find(limit => isFull(limit, facts.figures));
  if (full !== undefined)
    return answer(
      'admission-limited',
      `all ${full.concurrency ?? 0} reservations of admission key ${full.key} are taken`,
      'npx outlast admission',
      { ...details, key: full.key },
    );
  if (inMs > 0) {
    const at = `at ${dueAt ?? ''}, in ${spoken(inMs)}`;
    if (failures + crashes === 0)
      return answer('waiting-for-eta', `it is due ${at}`, null, details);
    return answer(
      'retry-at',
      `${failures} attempts failed and ${crashes} workers were lost; it runs again ${at}: ${error ?? ''}`,
      null,
      details,
    );
  }
  if (facts.paused.includes(queue))
    return answer(
      'queue-paused',
      `queue ${queue} is paused`,
      `npx outlast queues resume ${queue}`,
      details,
    );
  if (!facts.consumers.some(({ queues }) => queues.includes(queue)))
    return answer(
      'no-consumer',
      `no living worker takes from queue ${queue}`,
      `npx outlast worker --queues ${queue}`,
      details,
    );
  if (refusedBy !== null)
    return answer(
      'no-handler',
      `worker ${refusedBy} had no handler for ${record.name}, or not for its version`,
      'Start a worker that has one.',
      { ...details, refusedBy },
    );
  if (record.isSuspect)
    return answer(
      'suspect',
      `it crashed ${crashes} workers, and waits until no other such task runs`,
      null,
      details,
    );
  return answer(
    'due',
    `it is due since ${spoken(-inMs)}, and workers take from queue ${queue}`,
    null,
    details,
  );
}

/** Other tasks wait for a reservation, or none is left. */
const isFull = ({ key, concurrency }: Limit, figures: readonly KeyFigures[]): boolean =>
  concurrency !== null && figures.some(one => one.key === key && one.held >= concurrency);
