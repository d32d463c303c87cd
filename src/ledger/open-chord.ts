/** An incomplete chord: it was sent, or some of its parts have arrived. */
export interface OpenChord {
  readonly groupId: string;
  /** The name of the task that is its body; null: it is known only by its parts, or the ledger is in Redis. */
  readonly body: string | null;
  /** Parts that arrived with a result. */
  readonly parts: number;
  /** How many it waits for; null: its sender did not send a size, so it is never complete here. */
  readonly size: number | null;
  /** Parts that ended otherwise than done, and were not repaired. */
  readonly failed: number;
  /** When its header was sent from here, ISO 8601; if a Celery worker sent it: when its first part arrived. */
  readonly since: string;
  readonly ageMs: number;
}

export interface OpenChords {
  /** How many there are. */
  readonly open: number;
  /** The ones that have been open longest, oldest first. */
  readonly oldest: readonly OpenChord[];
}

/** An incomplete chord is deleted this long after its last part arrived. */
export const KEEP_OPEN_CHORD_MS = 604_800_000;
