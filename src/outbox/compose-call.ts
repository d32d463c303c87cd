import type { Call, ChainCall, ChordCall, GroupCall, Member, Task } from '../task/define-task.ts';
import type { ChordNote } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import { rawCall } from '../task/input.ts';
import { itemsOf } from '../task/json-slices.ts';
import { type Soon, soon, soonAll } from '../task/names.ts';
import { ALONE, type ComposeDeps, type Following, chainIds, composeTask } from './compose.ts';
import { type ChainDraft, draftChain, groupTasks, isGroupDraft, unfit } from './compose-group.ts';
import { conflict } from './compose-options.ts';
import { type StepDraft, draftStep, notATask } from './compose-step.ts';
import type { NewTask } from './outbox-writer.ts';

/** The result of writing one row. */
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

/** The result of sending a task, or a workflow whose outcome is that of one task. */
export interface SentTask extends SentRow {
  readonly task: Task;
  /** Tasks that must be done before that one exists. */
  readonly before: readonly SentStep[];
}

/** The result of sending a group. */
export interface SentGroup extends SentRow {
  readonly members: readonly SentTask[];
}

export type SentCall = SentTask | SentGroup;

/** A call as rows of the outbox, and how to read the answers, one for each row. */
export interface Composed {
  readonly rows: readonly NewTask[];
  readonly sent: (rows: readonly SentRow[]) => SentCall;
  /** The chord whose header consists of the rows. */
  readonly chord?: ChordNote;
}

/**
 * Turns a call of any kind into rows; a single task synchronously if its schema is synchronous. Throws before anything
 * is written.
 */
export function composeCall(call: Call, deps: ComposeDeps): Soon<Composed> {
  if (typeof call !== 'object' || call === null) throw notATask();
  if (!('flow' in call)) return composeMember(call, ALONE, deps);
  switch (call.flow) {
    case 'chain':
      return composeChain(call, ALONE, deps);
    case 'group':
      return composeGroup(call, deps);
    case 'chord':
      return composeChord(call, deps);
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
function composeMember(
  member: Member,
  following: Following,
  deps: ComposeDeps,
): Soon<ComposedMember> {
  if ('flow' in member) return composeChainMember(member, following, deps);
  // A step that needs a result, in a group that follows nothing.
  if (!('input' in member)) throw notATask();
  return soon(composeTask(member, following, deps), row => new ComposedTask(member.task, row));
}

async function composeChainMember(
  chain: ChainCall,
  following: Following,
  deps: ComposeDeps,
): Promise<ComposedMember> {
  const { rows, sent } = await composeChain(chain, following, deps);
  // In a group it ends with a task, otherwise it would have been refused.
  return { rows, sent: answers => sent(answers) as SentTask };
}

class ComposedTask implements ComposedMember {
  readonly rows: readonly [NewTask];
  readonly #task: Task;

  constructor(task: Task, row: NewTask) {
    this.rows = [row];
    this.#task = task;
  }

  sent([answer = { id: this.rows[0].id, isNew: true }]: readonly SentRow[]): SentTask {
    return { task: this.#task, id: answer.id, isNew: answer.isNew, before: [] };
  }
}

async function composeChain(
  { first, rest }: ChainCall,
  following: Following,
  deps: ComposeDeps,
): Promise<ComposedChain> {
  const chain = await draftChain(rest);
  const last = chain.at(-1);
  if (following.group !== null && last !== undefined && isGroupDraft(last))
    throw unfit('a chain in a group ends with a group');
  const row = await composeTask(first, { ...following, chain }, deps);
  return {
    rows: [row],
    sent: ([answer = { id: row.id, isNew: true }]) =>
      sentChain({ ...answer, task: first.task, before: [] }, chain),
  };
}

/** The result of sending a task and the steps that follow it: its last task, or the group at its end. */
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

/** Members with ids, and the id derived from all of them: the same members are the same group. */
function nameMembers(
  members: readonly Member[],
  deps: ComposeDeps,
): { readonly named: readonly Member[]; readonly groupId: string; readonly inside: ComposeDeps } {
  const ids: string[] = [];
  let areDrawn = true;
  const named = members.map((member): Member => {
    const first = 'flow' in member ? member.first : member;
    const id = first.options.id ?? deps.newId();
    areDrawn &&= first.options.id === undefined;
    ids.push(id);
    const call = { ...first, options: { ...first.options, id } };
    return 'flow' in member ? { ...member, first: call } : call;
  });
  const inside: ComposeDeps = areDrawn ? { ...deps, areIdsDrawn: true } : deps;
  return { named, groupId: derivedId(ids.join(' '), 'group'), inside };
}

function composeMembers(
  members: readonly Member[],
  groupId: string,
  chord: Following['chord'],
  deps: ComposeDeps,
): Soon<readonly ComposedMember[]> {
  return soonAll(members, (member, index) =>
    composeMember(member, { ...ALONE, group: { id: groupId, index }, chord }, deps),
  );
}

const sentMembers = (
  members: readonly ComposedMember[],
  rows: readonly SentRow[],
): readonly SentTask[] => members.map((member, index) => member.sent(rows.slice(index, index + 1)));

async function composeGroup({ members }: GroupCall, deps: ComposeDeps): Promise<Composed> {
  const { named, groupId, inside } = nameMembers(members, deps);
  const composed = await composeMembers(named, groupId, null, inside);
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
  const { named, groupId, inside } = nameMembers(header, deps);
  const bodyId = draft.id ?? derivedId(groupId, 'chord');
  const chord = { body: draft, bodyId, size: header.length, rest };
  const composed = await composeMembers(named, groupId, chord, inside);
  return {
    rows: composed.flatMap(member => member.rows),
    chord: { groupId, size: header.length, body: draft.task.name },
    sent: rows => {
      const members = sentMembers(composed, rows);
      const before = members.flatMap(({ id, task, before: steps }) => [...steps, { id, task }]);
      const isNew = rows.every(row => row.isNew);
      return sentChain({ task: draft.task, id: bodyId, isNew, before }, rest);
    },
  };
}

/** A task of another chord, or of none, would count as a part of this one, which would then never complete. */
function refuseKey(member: Member): void {
  const { options, task } = 'flow' in member ? member.first : member;
  if (options.idempotencyKey === undefined) return;
  throw conflict(
    ['idempotencyKey', 'chord'],
    `${task.name} in the header of a chord has an idempotency key: its task may be another's`,
  );
}

/** A chord with an empty header is its body with no results. */
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
