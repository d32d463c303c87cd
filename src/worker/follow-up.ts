import type { AfterEntry, BegunTask, Outcome } from '../ledger/ledger.ts';
import type { EnvelopeOptions, LinkOption } from '../task/envelope.ts';
import { EMBED } from '../outbox/outbox-writer.ts';
import { derivedId, digestOf } from '../task/digest.ts';
import { toBytes, toText } from '../task/json.ts';

/** The tasks that follow one that is done. Their ids derive from the parent's, so that a repeat is a copy. */
export function followUps(task: BegunTask, outcome: Outcome): readonly AfterEntry[] {
  const options = JSON.parse(toText(task.envelope.options)) as EnvelopeOptions;
  if (outcome.kind !== 'done' || !options.link) return [];
  const result = outcome.result === null ? 'null' : toText(outcome.result);
  return options.link.map((link, index) => followUp(task, options, link, { result, index }));
}

function followUp(
  task: BegunTask,
  parent: EnvelopeOptions,
  link: LinkOption,
  at: { result: string; index: number },
): AfterEntry {
  const position = `link:${at.index}`;
  const id = derivedId(task.id, position);
  const { args, kwargs } = link.call ?? callWith(at.result);
  const body = toBytes(`[${args},${kwargs},${EMBED}]`);
  const { name, queue, priority, version } = link;
  const options: EnvelopeOptions = {
    ...link.options,
    ...(parent.deadlineMs === undefined ? {} : { deadlineMs: parent.deadlineMs }),
    rootId: parent.rootId ?? task.id,
    parentId: task.id,
  };
  const digest = digestOf({ name, id, version, body });
  const publish = {
    id,
    name,
    queue,
    priority,
    version,
    body,
    options: toBytes(JSON.stringify(options)),
    digest,
    etaMs: null,
    expiresMs: null,
  };
  return { key: `${task.id}/${position}`, publish };
}

/** An object is the keyword arguments of the next task, anything else its one argument; no result, no argument. */
function callWith(result: string): { readonly args: string; readonly kwargs: string } {
  if (result === 'null') return { args: '[]', kwargs: '{}' };
  return result.startsWith('{')
    ? { args: '[]', kwargs: result }
    : { args: `[${result}]`, kwargs: '{}' };
}
