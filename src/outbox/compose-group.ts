import { outlastError } from '../errors/error.ts';
import type { ChainStep, Member, Step, Task } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { chordLinks, type ChordPosition } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import { objectOf } from '../task/json-slices.ts';
import { encodeSignature } from '../task/signature.ts';
import {
  draftStep,
  notATask,
  signatureOf,
  type SignatureStyle,
  type StepDraft,
} from './compose-step.ts';

/** Parallel tasks that follow a task. Each is a list: the steps of a chain, or one task. */
export interface GroupDraft {
  readonly members: readonly (readonly StepDraft[])[];
}

/** What follows in a chain. */
export type ChainDraft = StepDraft | GroupDraft;

export const isGroupDraft = (draft: ChainDraft): draft is GroupDraft => 'members' in draft;

export async function draftChain(steps: readonly ChainStep[]): Promise<readonly ChainDraft[]> {
  return await Promise.all(
    steps.map(async (step): Promise<ChainDraft> => {
      if (isTask(step) || typeof step !== 'object' || step === null || !('flow' in step))
        return await draftStep(step);
      if (step.flow !== 'group') throw notATask();
      // Celery and we would either continue at once, or never: neither is what a caller means.
      if (step.members.length === 0) throw unfit('a group in a chain has no members');
      return { members: await Promise.all(step.members.map(draftMember)) };
    }),
  );
}

async function draftMember(member: Member | Step): Promise<readonly StepDraft[]> {
  if (isTask(member) || !('flow' in member)) return [await draftStep(member)];
  return await Promise.all(
    [member.first, ...member.rest].map(async step => {
      if (!isTask(step) && 'flow' in step) throw unfit('a chain in a group has a group in it');
      return await draftStep(step);
    }),
  );
}

export function unfit(message: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message,
    hint: 'Send it as a workflow of its own, or from a handler.',
    fields: { option: 'group' },
  });
}

/** Ids of a group's tasks: the same for the same group. */
function memberIds(
  groupId: string,
  members: GroupDraft['members'],
): readonly (readonly string[])[] {
  return members.map((steps, index) => {
    const [first] = steps;
    const firstId = first?.id ?? derivedId(groupId, `group:${index}`);
    return steps.map(({ id }, at) =>
      at === 0 ? firstId : (id ?? derivedId(firstId, `chain:${at}`)),
    );
  });
}

/** Its tasks in the order in which they end, member by member; the last of each has the result. */
export function groupTasks(
  groupId: string,
  { members }: GroupDraft,
): readonly (readonly { readonly id: string; readonly task: Task }[])[] {
  const ids = memberIds(groupId, members);
  return members.map((steps, index) =>
    steps.map(({ task }, at) => ({ task, id: ids[index]?.[at] ?? '' })),
  );
}

/** The part is done when its last step is, and failed when any of them is. */
export interface PartLinks {
  readonly links: readonly string[];
  readonly errorLinks: readonly string[];
}

const NO_LINKS: PartLinks = Object.freeze({ links: [], errorLinks: [] });

/** Nothing where Celery counts. `taskId` is the task whose result is the part's. */
export function linksOfPart(
  position: ChordPosition | null,
  taskId: string | null,
  { hasIds, chordTelling }: SignatureStyle,
): PartLinks {
  if (position === null || chordTelling === null) return NO_LINKS;
  const { done, failed } = chordLinks(position, hasIds ? taskId : null, chordTelling);
  return { links: [done], errorLinks: [failed] };
}

const NO_CALL = { args: '[]', isImmutable: false } as const;

/** With a body it is the header of a chord whose parts report their endings to us. */
export function groupSignature(
  groupId: string,
  { members }: GroupDraft,
  style: SignatureStyle,
  body?: string,
): string {
  const ids = memberIds(groupId, members);
  const texts = members.map((steps, index) => {
    const position = body === undefined ? null : { groupId, index, size: members.length, body };
    const { links, errorLinks } = linksOfPart(position, ids[index]?.at(-1) ?? null, style);
    const signatures = steps.map((draft, at) => {
      const isLast = at === steps.length - 1;
      const id = ids[index]?.[at] ?? null;
      return signatureOf(draft, { id, errorLinks, links: isLast ? links : [] }, style);
    });
    return signatures.length === 1 ? (signatures[0] ?? '') : chainSignature(signatures);
  });
  const kwargs = objectOf({ tasks: `[${texts.join(',')}]` });
  const options = { task_id: style.hasIds ? JSON.stringify(groupId) : undefined };
  return encodeSignature({ task: 'celery.group', ...NO_CALL, kwargs, options, kind: 'group' });
}

function chainSignature(signatures: readonly string[]): string {
  const kwargs = objectOf({ tasks: `[${signatures.join(',')}]` });
  return encodeSignature({ task: 'celery.chain', ...NO_CALL, kwargs, options: {}, kind: 'chain' });
}

/** A group and the task that takes its results. */
export function chordSignature(
  groupId: string,
  texts: { readonly header: string; readonly body: string },
  style: SignatureStyle,
): string {
  const kwargs = objectOf({ kwargs: '{}', ...texts });
  const options = { task_id: style.hasIds ? JSON.stringify(groupId) : undefined };
  return encodeSignature({ task: 'celery.chord', ...NO_CALL, kwargs, options, kind: 'chord' });
}
