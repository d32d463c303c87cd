import { derivedId } from '../task/digest.ts';
import { EMBED, encodeEmbed } from '../task/signature.ts';
import { chordSignature, groupSignature, isGroupDraft, type ChainDraft } from './compose-group.ts';
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
  readonly chain: readonly ChainDraft[];
  readonly group: { readonly id: string; readonly index: number } | null;
  /** The body of the chord whose header it, or the last step of its chain, belongs to. */
  readonly chord: {
    readonly body: StepDraft;
    readonly bodyId: string;
    readonly size: number;
    /** The steps after the body. */
    readonly rest: readonly ChainDraft[];
  } | null;
}

/** The ids of a chain's steps: the same for the same first task, so that sending it again sends nothing new. */
export function chainIds(firstId: string, steps: readonly ChainDraft[]): readonly string[] {
  return steps.map((step, index) => {
    const given = isGroupDraft(step) ? null : step.id;
    return given ?? derivedId(firstId, `chain:${index + 1}`);
  });
}

/** The third part of a body, as Celery writes it. */
export function embedOf(id: string, following: Following, style: SignatureStyle): string {
  const { links, errorLinks, chain, chord } = following;
  if (links.length + errorLinks.length + chain.length === 0 && chord === null) return EMBED;
  return encodeEmbed({
    callbacks: linkSignatures(links, id, style),
    errbacks: errorSignatures(errorLinks, style),
    chain: chain.length === 0 ? null : chainOf(id, following, style),
    chord: chain.length === 0 ? bodySignature(following, style) : null,
  });
}

/** Group and chord count when the last step is done. */
function chainOf(id: string, following: Following, style: SignatureStyle): readonly string[] {
  const { chain, group } = following;
  const ofGroup = {
    group_id: group === null || !style.hasIds ? undefined : JSON.stringify(group.id),
    group_index: group === null ? undefined : String(group.index),
    chord: bodySignature(following, style) ?? undefined,
  };
  return chainSignatures({ id, steps: chain, ofLast: ofGroup }, style);
}

interface Chain {
  /** The id of the task before it. */
  readonly id: string;
  readonly steps: readonly ChainDraft[];
  /** Options of its last step. */
  readonly ofLast: Readonly<Record<string, string | undefined>>;
}

/**
 * In reverse, so that the next one is the last. A group and the task after it are one, a chord, as Celery has it; what
 * follows stays in the chain, and is given to the body by whoever sends the header.
 */
function chainSignatures({ id, steps, ofLast }: Chain, style: SignatureStyle): readonly string[] {
  const ids = chainIds(id, steps);
  const signatures: string[] = [];
  let header: { readonly id: string; readonly text: string } | null = null;
  for (const [index, draft] of steps.entries()) {
    const own = ids[index] ?? '';
    if (isGroupDraft(draft)) {
      header = { id: own, text: groupSignature(own, draft, style) };
      continue;
    }
    const options = index === steps.length - 1 ? ofLast : {};
    const text = signatureOf(draft, { id: own, options }, style);
    const parts = { header: header?.text ?? '', body: text };
    signatures.push(header === null ? text : chordSignature(header.id, parts, style));
    header = null;
  }
  if (header !== null) signatures.push(header.text);
  return signatures.toReversed();
}

function bodySignature({ chord }: Following, style: SignatureStyle): string | null {
  if (chord === null) return null;
  const { body, bodyId, size, rest } = chord;
  const chain = chainSignatures({ id: bodyId, steps: rest, ofLast: {} }, style);
  const options = rest.length === 0 ? {} : { chain: `[${chain.join(',')}]` };
  return signatureOf(body, { id: bodyId, chordSize: size, options }, style);
}
