/** A chord that was sent, or some parts of which have come, and that is not complete. */
export interface OpenChord {
  readonly groupId: string;
  /** The name of the task that is its body; null: it is known only by its parts, or the ledger is in Redis. */
  readonly body: string | null;
  /** Parts that have come with a result. */
  readonly parts: number;
  /** How many it waits for; null: its sender did not say, so it is never complete here. */
  readonly size: number | null;
  /** Parts that ended otherwise than done, and have not been made good. */
  readonly failed: number;
  /** When its header was sent from here, ISO 8601; of one that Celery's workers sent: when its first part came. */
  readonly since: string;
  readonly ageMs: number;
}

export interface OpenChords {
  /** How many there are. */
  readonly open: number;
  /** Those that have been open for longest, oldest first. */
  readonly oldest: readonly OpenChord[];
}

/** A chord that is not complete is forgotten so long after its last part came. */
export const KEEP_OPEN_CHORD_MS = 604_800_000;
