import type { Envelope } from '../task/envelope.ts';
import type { InheritedOptions } from '../task/options.generated.ts';
import type { Reply } from '../wire/reply.ts';
import type { ChordPart } from './chord-part.ts';
import { readChordLink } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import { membersOf } from '../task/json-slices.ts';
import { type Signature, hasFollowUps, readEmbed, readSignature } from '../task/signature.ts';
import { headerOf, listIn, textIn } from './expand-signature.ts';

/**
 * Messages that must follow a terminal step but are sent elsewhere; that step writes them, and they are deleted once sent.
 * Follow-ups of a task that is done or discarded come with its `commit`. For every other ending (dead, cancelled,
 * expired), the store itself writes an `EndedEntry`, whichever step it was, if the body names follow-ups or the sender
 * waits for an answer.
 */
export interface AfterLog {
  /**
   * Entries that have been due for `olderThanMs`, longest due first: since they were written, or as set by `defer`.
   * Returns at least one if there is one, and no more at once than fits in memory.
   */
  list(olderThanMs: number, limit: number): Promise<readonly AfterEntry[]>;
  strike(keys: readonly string[]): Promise<void>;
  /** These could not be carried out: they are due again after a delay, so that the entries behind them are reached. */
  defer(entries: readonly DeferredEntry[]): Promise<void>;
}

export interface DeferredEntry {
  readonly key: string;
  readonly delayMs: number;
  /** It was refused, which counts as an attempt; an outage does not. */
  readonly isAttempt: boolean;
}

/** The key derives from the task and the position, so writing an entry twice has no effect. */
export type AfterEntry = (FollowUp | EndedEntry | UnreadableEntry) & {
  /** How often it was refused; left out: never. */
  readonly attempts?: number;
};

/** Reasons of dead letters that are unsent follow-ups: `revive` puts them back into the follow-up log. */
export const UNSENT_REASONS: readonly string[] = [
  'ERR_FOLLOW_UP_UNSENT',
  'ERR_DESTINATION_REFUSED',
];

/** What follows a task directly. */
export type FollowUp = PublishEntry | ChordPartEntry | ReplyEntry;

/** A task to be sent. */
export interface PublishEntry {
  readonly key: string;
  readonly publish: Envelope;
}

/** A part of a chord to be counted; the worker that completes the count sends the body. */
export interface ChordPartEntry {
  readonly key: string;
  readonly part: ChordPart;
  /** The signature of the chord's body. */
  readonly body: string;
  readonly parent: Parent;
}

/** An answer that the sender of the task waits for. */
export interface ReplyEntry {
  readonly key: string;
  readonly reply: Reply;
}

/** A task that ended otherwise than done: its error links and its chord must be notified. */
export interface EndedEntry {
  readonly key: string;
  readonly ended: EndedTask;
}

/** The bytes of this entry were not written by us. */
export interface UnreadableEntry {
  readonly key: string;
  readonly unreadable: Uint8Array;
  readonly why: string;
}

export interface EndedTask {
  readonly envelope: Envelope;
  readonly how: 'dead' | 'discarded' | 'cancelled' | 'expired';
  readonly epoch: number;
  /** Why, if the reporter knows it; an entry of the store does not contain it. */
  readonly error?: ErrorRecord;
  readonly why?: string;
}

/** The key of the entry that a store writes when a task ends otherwise than done. */
export const endedKey = (id: string, epoch: number): string => `${id}/ended:${epoch}`;

/** The key of a follow-up that is sent again after that death. */
export const revivedKey = (id: string, version: number): string => `${id}/revived:${version}`;

/** The options that a task passes on to its follow-ups. */
export interface Parent extends InheritedOptions {
  readonly id: string;
  readonly rootId: string;
  readonly queue: string;
  readonly deadlineMs: number | null;
  /** Its headers, which its follow-ups have too. Left out: it has none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The holder of a key has sent it, so its follow-ups are signed. Left out: it was not, and they are not. */
  readonly isSigned?: true;
}

/** An error as it is stored: texts only, already cut to a bounded length. */
export interface ErrorRecord {
  readonly type: string;
  readonly message: string;
  readonly traceback: string;
}

/**
 * What Celery stores with a result as its children: the results of the tasks that were sent when it was done, each as
 * `[[id, parent], members]`. `AsyncResult.children`, `collect()` and `graph` follow them. Ids are those that `afterDone` gives.
 */
type ResultTuple = readonly [
  readonly [id: string, parent: ResultTuple | null],
  readonly ResultTuple[] | null,
];

/** More are not listed: a group may have ten thousand members. */
const MOST_CHILDREN = 1_000;

/** As JSON text; null: it has none. Never throws: what cannot be read is not sent either. */
export function childrenAfter(envelope: Envelope): string | null {
  if (!hasFollowUps(envelope.body)) return null;
  try {
    const { callbacks, chain } = readEmbed(envelope.body);
    const links = callbacks.flatMap((text, index) =>
      readChordLink(text) === null ? [resultOf(text, derivedId(envelope.id, `link:${index}`))] : [],
    );
    const next = chain?.at(-1);
    const children = [
      ...together(links, envelope.id),
      ...(next === undefined ? [] : [resultOf(next, derivedId(envelope.id, 'chain'))]),
    ];
    return children.length === 0 ? null : JSON.stringify(children);
  } catch {
    return null;
  }
}

/** Celery sends several links as one group. */
function together(links: readonly ResultTuple[], id: string): readonly ResultTuple[] {
  if (links.length < 2) return links;
  const plain = links.filter(([, members]) => members === null);
  const groups = links.filter(([, members]) => members !== null);
  return plain.length === 0 ? groups : [...groups, [[derivedId(id, 'links'), null], plain]];
}

function resultOf(text: string, fallbackId: string): ResultTuple {
  const signature = readSignature(text);
  switch (signature.task) {
    case 'celery.group':
      return groupOf(textIn(signature.options, 'task_id') ?? fallbackId, tasksOf(signature));
    case 'celery.chord':
      return chordOf(signature, fallbackId);
    case 'celery.chain':
      return chainOf(signature, fallbackId);
    default:
      return [[textIn(signature.options, 'task_id') ?? fallbackId, null], null];
  }
}

function groupOf(id: string, tasks: readonly string[]): ResultTuple {
  const members = tasks
    .slice(0, MOST_CHILDREN)
    .map((task, index) => resultOf(task, derivedId(id, `group:${index}`)));
  return [[id, null], members];
}

/** The result of its body, which follows that of its header. */
function chordOf({ kwargs, options }: Signature, fallbackId: string): ResultTuple {
  const parts = membersOf(kwargs);
  const header = headerOf(parts.get('header') ?? '[]', fallbackId);
  const id = textIn(options, 'task_id') ?? derivedId(header.id, 'chord');
  const [[bodyId], members] = resultOf(parts.get('body') ?? '{}', id);
  return [[bodyId, groupOf(header.id, header.tasks)], members];
}

/** The result of its last step, if every step has an id already; else that of the first, whose children lead on. */
function chainOf(signature: Signature, fallbackId: string): ResultTuple {
  const [first, ...rest] = tasksOf(signature);
  if (first === undefined) return [[fallbackId, null], null];
  const firstId = rest.length === 0 ? fallbackId : derivedId(fallbackId, 'chain');
  return rest.reduce<ResultTuple>(
    (before, text) => {
      const id = textIn(readSignature(text).options, 'task_id');
      return id === null ? before : [[id, before], null];
    },
    resultOf(first, firstId),
  );
}

const tasksOf = ({ kwargs }: Signature): readonly string[] =>
  listIn(membersOf(kwargs), 'tasks') ?? [];
