import { type ChordPosition, isProvenLink } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Parent } from './ledger.ts';

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

interface CountDeps {
  readonly keyring: Keyring;
  readonly countsWithCelery?: boolean;
}

/**
 * The group under which a part is counted. If tasks are signed, parts of unsigned tasks get a separate group: their sender
 * chose the id, and could fill positions of a signed chord, or have its results sent to his own body.
 */
export function countedGroup(groupId: string, parent: Parent, deps: CountDeps): string {
  const isSeparate = deps.keyring.isSigning && parent.isSigned !== true;
  return isSeparate && deps.countsWithCelery !== true ? derivedId(groupId, 'unsigned') : groupId;
}

/** A link may prove that its chord was sent with a key: then Python has only passed the task on. */
export function countedPosition(
  link: string,
  position: ChordPosition,
  parent: Parent,
  deps: CountDeps,
): ChordPosition {
  const groupId = countedGroup(position.groupId, parent, deps);
  return groupId === position.groupId || isProvenLink(link, deps.keyring)
    ? position
    : { ...position, groupId };
}
