import type { Envelope } from '../task/envelope.ts';
import type { InheritedOptions } from '../task/options.generated.ts';
import type { Reply } from '../wire/reply.ts';
import type { ChordPart } from './chord-part.ts';

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
