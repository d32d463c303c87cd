import type {
  Call,
  ChainCall,
  ChordCall,
  GroupCall,
  Member,
  Task,
  TaskCall,
} from '../task/define-task.ts';
import { derivedId } from '../task/digest.ts';
import { rawCall } from '../task/input.ts';
import { itemsOf } from '../task/json-slices.ts';
import { ALONE, composeTask, type ComposeDeps, type Place } from './compose.ts';
import { chainIds } from './compose-embed.ts';
import { draftChain, groupTasks, isGroupDraft, unfit, type ChainDraft } from './compose-group.ts';
import { conflict } from './compose-options.ts';
import { draftStep, notATask, type StepDraft } from './compose-step.ts';
import type { NewTask } from './outbox-writer.ts';

/** What became of one row. */
export interface SentRow {
  readonly id: string;
  /** False: an earlier send had written it. */
  readonly isNew: boolean;
}

/** One task of a workflow. */
export interface SentStep {
  readonly id: string;
  readonly task: Task;
}

/** What became of a task, or of a workflow whose outcome one task has. */
export interface SentTask extends SentRow {
  readonly task: Task;
  /** Tasks that must be done before that one exists. */
  readonly before: readonly SentStep[];
}

/** What became of a group. */
export interface SentGroup extends SentRow {
  readonly members: readonly SentTask[];
}

export type SentCall = SentTask | SentGroup;

/** A call as rows of the outbox, and what to make of the answers, one for each row. */
export interface Composed {
  readonly rows: readonly NewTask[];
  readonly sent: (rows: readonly SentRow[]) => SentCall;
}

/** Turns a call of any kind into rows. Throws before anything is written. */
export async function composeCall(call: Call, deps: ComposeDeps): Promise<Composed> {
  if (typeof call !== 'object' || call === null) throw notATask();
  if (!('flow' in call)) return await composeMember(call, ALONE, deps);
  switch (call.flow) {
    case 'chain':
      return await composeChain(call, ALONE, deps);
    case 'group':
      return await composeGroup(call, deps);
    case 'chord':
      return await composeChord(call, deps);
    default:
      throw notATask();
  }
}

interface ComposedChain extends Composed {
  readonly rows: readonly [NewTask];
}

interface ComposedMember extends Composed {
  readonly rows: readonly [NewTask];
  readonly sent: (rows: readonly SentRow[]) => SentTask;
}

/** A task or a chain is one row. */
async function composeMember(
  member: Member,
  place: Omit<Place, 'chain'>,
  deps: ComposeDeps,
): Promise<ComposedMember> {
  if (!('flow' in member)) {
    // A step that waits for a result, in a group that follows nothing.
    if (!('input' in member)) throw notATask();
    return await composeAlone(member, place, deps);
  }
  const { rows, sent } = await composeChain(member, place, deps);
  // In a group it ends with a task, or it would have been refused.
  return { rows, sent: answers => sent(answers) as SentTask };
}

async function composeChain(
  { first, rest }: ChainCall,
  place: Omit<Place, 'chain'>,
  deps: ComposeDeps,
): Promise<ComposedChain> {
  const chain = await draftChain(rest);
  const last = chain.at(-1);
  if (place.group !== null && last !== undefined && isGroupDraft(last))
    throw unfit('a chain in a group ends with a group');
  const row = await composeTask(first, { ...place, chain }, deps);
  return {
    rows: [row],
    sent: ([answer = { id: row.envelope.id, isNew: true }]) =>
      sentChain({ ...answer, task: first.task, before: [] }, chain),
  };
}

/** What became of a task and the steps that follow it: its last task, or the group at its end. */
function sentChain(first: SentTask, chain: readonly ChainDraft[]): SentCall {
  const last = chain.at(-1);
  if (last === undefined) return first;
  const { id, task, isNew } = first;
  const ids = chainIds(id, chain);
  const idAt = (index: number): string => ids.at(index) ?? '';
  const stages = chain.map((draft, index) =>
    isGroupDraft(draft)
      ? groupTasks(idAt(index), draft)
      : [[{ id: idAt(index), task: draft.task }]],
  );
  const before = [...first.before, { id, task }, ...stages.slice(0, -1).flat(2)];
  const members = (stages.at(-1) ?? []).map(steps => {
    const end = steps.at(-1) ?? { id, task };
    return { ...end, isNew, before: [...before, ...steps.slice(0, -1)] };
  });
  return isGroupDraft(last) ? { id: idAt(-1), isNew, members } : (members[0] ?? first);
}

async function composeAlone(
  call: TaskCall,
  { group, chord }: Omit<Place, 'chain'>,
  deps: ComposeDeps,
): Promise<ComposedMember> {
  const row = await composeTask(call, { chain: [], group, chord }, deps);
  return {
    rows: [row],
    sent: answers => {
      const { id, isNew } = answers[0] ?? { id: row.envelope.id, isNew: true };
      return { task: call.task, id, isNew, before: [] };
    },
  };
}

/** Members with ids, and the id that derives from all of them: the same members are the same group. */
function nameMembers(
  members: readonly Member[],
  deps: ComposeDeps,
): { readonly named: readonly Member[]; readonly groupId: string } {
  const ids: string[] = [];
  const named = members.map((member): Member => {
    const first = 'flow' in member ? member.first : member;
    const id = first.options.id ?? deps.newId();
    ids.push(id);
    const call = { ...first, options: { ...first.options, id } };
    return 'flow' in member ? { ...member, first: call } : call;
  });
  return { named, groupId: derivedId(ids.join(' '), 'group') };
}

async function composeMembers(
  members: readonly Member[],
  groupId: string,
  chord: Place['chord'],
  deps: ComposeDeps,
): Promise<readonly ComposedMember[]> {
  return await Promise.all(
    members.map((member, index) =>
      composeMember(member, { group: { id: groupId, index }, chord }, deps),
    ),
  );
}

const sentMembers = (
  members: readonly ComposedMember[],
  rows: readonly SentRow[],
): readonly SentTask[] => members.map((member, index) => member.sent(rows.slice(index, index + 1)));

async function composeGroup({ members }: GroupCall, deps: ComposeDeps): Promise<Composed> {
  const { named, groupId } = nameMembers(members, deps);
  const composed = await composeMembers(named, groupId, null, deps);
  return {
    rows: composed.flatMap(member => member.rows),
    sent: rows => ({
      id: groupId,
      isNew: rows.every(row => row.isNew),
      members: sentMembers(composed, rows),
    }),
  };
}

async function composeChord(call: ChordCall, deps: ComposeDeps): Promise<Composed> {
  const { header, body } = call;
  const draft = await draftStep(body);
  if (header.length === 0) return await composeBodyAlone(draft, call, deps);
  const rest = await draftChain(call.rest ?? []);
  for (const member of header) refuseKey(member);
  const { named, groupId } = nameMembers(header, deps);
  const bodyId = draft.id ?? derivedId(groupId, 'chord');
  const chord = { body: draft, bodyId, size: header.length, rest };
  const composed = await composeMembers(named, groupId, chord, deps);
  return {
    rows: composed.flatMap(member => member.rows),
    sent: rows => {
      const members = sentMembers(composed, rows);
      const before = members.flatMap(({ id, task, before: steps }) => [...steps, { id, task }]);
      const isNew = rows.every(row => row.isNew);
      return sentChain({ task: draft.task, id: bodyId, isNew, before }, rest);
    },
  };
}

/** A task of another chord, or of none, would be taken for a part of this one, which then never ends. */
function refuseKey(member: Member): void {
  const { options, task } = 'flow' in member ? member.first : member;
  if (options.idempotencyKey === undefined) return;
  throw conflict(
    ['idempotencyKey', 'chord'],
    `${task.name} in the header of a chord has an idempotency key: its task may be another's`,
  );
}

/** A chord of nothing is its body with no results. */
async function composeBodyAlone(
  draft: StepDraft,
  { body, rest = [] }: ChordCall,
  deps: ComposeDeps,
): Promise<Composed> {
  const { call, isImmutable, task } = draft;
  const args = isImmutable ? call.args : `[${['[]', ...itemsOf(call.args)].join(',')}]`;
  const options = 'options' in body ? body.options : {};
  const first = { task, input: rawCall(args, call.kwargs), options };
  return await composeChain({ flow: 'chain', first, rest }, ALONE, deps);
}
