import { isProvenLink, type ChordPosition } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Parent } from './ledger.ts';

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
