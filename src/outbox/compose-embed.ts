import { derivedId } from '../task/digest.ts';
import { EMBED, encodeEmbed } from '../task/signature.ts';
import {
  errorSignatures,
  linkSignatures,
  signatureOf,
  type SignatureStyle,
  type StepDraft,
} from './compose-step.ts';

/** What follows a task, and the workflow it stands in. */
export interface Following {
  readonly links: readonly StepDraft[];
  readonly errorLinks: readonly StepDraft[];
  /** The steps after it; empty outside of a chain. */
  readonly chain: readonly StepDraft[];
  readonly group: { readonly id: string; readonly index: number } | null;
  /** The body of the chord whose header it, or the last step of its chain, belongs to. */
  readonly chord: {
    readonly body: StepDraft;
    readonly bodyId: string;
    readonly size: number;
  } | null;
}

/** The ids of a chain's steps: the same for the same first task, so that sending it again sends nothing new. */
export function chainIds(firstId: string, steps: readonly StepDraft[]): readonly string[] {
  return steps.map(({ id }, index) => id ?? derivedId(firstId, `chain:${index + 1}`));
}

/** The third part of a body, as Celery writes it. */
export function embedOf(id: string, following: Following, style: SignatureStyle): string {
  const { links, errorLinks, chain, chord } = following;
  if (links.length + errorLinks.length + chain.length === 0 && chord === null) return EMBED;
  return encodeEmbed({
    callbacks: linkSignatures(links, id, style),
    errbacks: errorSignatures(errorLinks, style),
    chain: chain.length === 0 ? null : chainSignatures(id, following, style),
    chord: chain.length === 0 ? bodySignature(following, style) : null,
  });
}

/** In reverse, so that the next one is the last. Group and chord count when the last step is done. */
function chainSignatures(
  id: string,
  following: Following,
  style: SignatureStyle,
): readonly string[] {
  const { chain, group } = following;
  const ids = chainIds(id, chain);
  const ofGroup = {
    group_id: group === null || !style.hasIds ? undefined : JSON.stringify(group.id),
    group_index: group === null ? undefined : String(group.index),
    chord: bodySignature(following, style) ?? undefined,
  };
  const signatures = chain.map((draft, index) =>
    signatureOf(
      draft,
      { id: ids[index] ?? null, ...(index === chain.length - 1 ? { options: ofGroup } : {}) },
      style,
    ),
  );
  return signatures.toReversed();
}

function bodySignature({ chord }: Following, style: SignatureStyle): string | null {
  if (chord === null) return null;
  return signatureOf(chord.body, { id: chord.bodyId, chordSize: chord.size }, style);
}
