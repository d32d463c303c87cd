import { derivedId } from '../task/digest.ts';
import { EMBED, encodeEmbed } from '../task/signature.ts';
import {
  chordSignature,
  groupSignature,
  isGroupDraft,
  linksOfPart,
  type ChainDraft,
  type PartLinks,
} from './compose-group.ts';
import {
  errorSignatures,
  linkSignatures,
  signatureOf,
  type SignatureContext,
  type SignatureStyle,
  type StepDraft,
} from './compose-step.ts';

/** What follows a task, and the workflow it belongs to. */
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
  const isPart = chain.length === 0;
  const body = bodySignature(following, style);
  const ofPart = partLinks(id, following, body, style);
  return encodeEmbed({
    callbacks: [...linkSignatures(links, id, style), ...(isPart ? ofPart.links : [])],
    errbacks: [...errorSignatures(errorLinks, style), ...ofPart.errorLinks],
    chain: isPart ? null : chainOf(id, following, { body, ofPart }, style),
    chord: isPart && style.chordTelling === null ? body : null,
  });
}

function partLinks(
  id: string,
  { chain, group, chord }: Following,
  body: string | null,
  style: SignatureStyle,
): PartLinks {
  const position =
    group === null || chord === null || body === null
      ? null
      : { groupId: group.id, index: group.index, size: chord.size, body };
  return linksOfPart(position, chainIds(id, chain).at(-1) ?? id, style);
}

/** Group and chord count when the last step is done. */
function chainOf(
  id: string,
  { chain, group }: Following,
  { body, ofPart }: { readonly body: string | null; readonly ofPart: PartLinks },
  style: SignatureStyle,
): readonly string[] {
  const ofLast = {
    group_id: group === null || !style.hasIds ? undefined : JSON.stringify(group.id),
    group_index: group === null ? undefined : String(group.index),
    chord: style.chordTelling === null ? (body ?? undefined) : undefined,
  };
  return chainSignatures({ id, steps: chain, ofLast, ofPart }, style);
}

interface Chain {
  /** The id of the task before it. */
  readonly id: string;
  readonly steps: readonly ChainDraft[];
  /** Options of its last step. */
  readonly ofLast?: Readonly<Record<string, string | undefined>>;
  /** The whole chain is a part of a chord. */
  readonly ofPart?: PartLinks;
}

/**
 * In reverse, so that the next one is the last. A group and the task after it are a chord. Where Celery counts they are
 * one step, as in Celery, and what follows stays in the chain; the worker that sends the header passes it to the body.
 * Where we count they are a group, which ends the chain: its members know the body, and the body knows what follows.
 */
function chainSignatures(
  { id, steps, ofLast = {}, ofPart }: Chain,
  style: SignatureStyle,
): readonly string[] {
  const ids = chainIds(id, steps);
  const idAt = (index: number): string => ids[index] ?? '';
  const taskAt = (
    index: number,
    draft: StepDraft,
    more: Partial<SignatureContext> = {},
  ): string => {
    const isLast = index === steps.length - 1;
    const options = { ...(isLast ? ofLast : {}), ...more.options };
    const links = isLast ? (ofPart?.links ?? []) : [];
    const errorLinks = ofPart?.errorLinks ?? [];
    return signatureOf(draft, { ...more, id: idAt(index), options, links, errorLinks }, style);
  };
  const from = (index: number): readonly string[] => {
    const [draft, body] = steps.slice(index, index + 2);
    if (draft === undefined) return [];
    if (!isGroupDraft(draft)) return [taskAt(index, draft), ...from(index + 1)];
    // Of two consecutive groups the first would have no body: `chain` refuses them.
    if (body === undefined || isGroupDraft(body))
      return [groupSignature(idAt(index), draft, style)];
    if (style.chordTelling === null) {
      const header = groupSignature(idAt(index), draft, style);
      const parts = { header, body: taskAt(index + 1, body) };
      return [chordSignature(idAt(index), parts, style), ...from(index + 2)];
    }
    const rest = from(index + 2);
    const options = chainOption(rest.toReversed());
    const text = taskAt(index + 1, body, { options, chordSize: draft.members.length });
    return [groupSignature(idAt(index), draft, style, text)];
  };
  return from(0).toReversed();
}

const chainOption = (chain: readonly string[]): Readonly<Record<string, string>> =>
  chain.length === 0 ? {} : { chain: `[${chain.join(',')}]` };

function bodySignature({ chord }: Following, style: SignatureStyle): string | null {
  if (chord === null) return null;
  const { body, bodyId, size, rest } = chord;
  const options = chainOption(chainSignatures({ id: bodyId, steps: rest }, style));
  return signatureOf(body, { id: bodyId, chordSize: size, options }, style);
}
