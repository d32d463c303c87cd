import { readChordLink } from '../task/chord-link.ts';
import { derivedId } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { membersOf } from '../task/json-slices.ts';
import { hasFollowUps, readEmbed, readSignature, type Signature } from '../task/signature.ts';
import { headerOf, listIn, textIn } from './expand-signature.ts';

/**
 * What Celery stores with a result as its children: the results of the tasks that were sent when it was done, each as
 * `[[id, parent], members]`. `AsyncResult.children`, `collect()` and `graph` follow them. Ids are those that `afterDone` gives.
 */
type ResultTuple = readonly [
  readonly [id: string, parent: ResultTuple | null],
  readonly ResultTuple[] | null,
];

/** More are not listed: a group may have ten thousand members. */
const MOST_CHILDREN = 1_000;

/** As JSON text; null: it has none. Never throws: what cannot be read is not sent either. */
export function childrenAfter(envelope: Envelope): string | null {
  if (!hasFollowUps(envelope.body)) return null;
  try {
    const { callbacks, chain } = readEmbed(envelope.body);
    const links = callbacks.flatMap((text, index) =>
      readChordLink(text) === null ? [resultOf(text, derivedId(envelope.id, `link:${index}`))] : [],
    );
    const next = chain?.at(-1);
    const children = [
      ...together(links, envelope.id),
      ...(next === undefined ? [] : [resultOf(next, derivedId(envelope.id, 'chain'))]),
    ];
    return children.length === 0 ? null : JSON.stringify(children);
  } catch {
    return null;
  }
}

/** Celery sends several links as one group. */
function together(links: readonly ResultTuple[], id: string): readonly ResultTuple[] {
  if (links.length < 2) return links;
  const plain = links.filter(([, members]) => members === null);
  const groups = links.filter(([, members]) => members !== null);
  return plain.length === 0 ? groups : [...groups, [[derivedId(id, 'links'), null], plain]];
}

function resultOf(text: string, fallbackId: string): ResultTuple {
  const signature = readSignature(text);
  switch (signature.task) {
    case 'celery.group':
      return groupOf(textIn(signature.options, 'task_id') ?? fallbackId, tasksOf(signature));
    case 'celery.chord':
      return chordOf(signature, fallbackId);
    case 'celery.chain':
      return chainOf(signature, fallbackId);
    default:
      return [[textIn(signature.options, 'task_id') ?? fallbackId, null], null];
  }
}

function groupOf(id: string, tasks: readonly string[]): ResultTuple {
  const members = tasks
    .slice(0, MOST_CHILDREN)
    .map((task, index) => resultOf(task, derivedId(id, `group:${index}`)));
  return [[id, null], members];
}

/** The result of its body, which follows that of its header. */
function chordOf({ kwargs, options }: Signature, fallbackId: string): ResultTuple {
  const parts = membersOf(kwargs);
  const header = headerOf(parts.get('header') ?? '[]', fallbackId);
  const id = textIn(options, 'task_id') ?? derivedId(header.id, 'chord');
  const [[bodyId], members] = resultOf(parts.get('body') ?? '{}', id);
  return [[bodyId, groupOf(header.id, header.tasks)], members];
}

/** The result of its last step, if every step has an id already; else that of the first, whose children lead on. */
function chainOf(signature: Signature, fallbackId: string): ResultTuple {
  const [first, ...rest] = tasksOf(signature);
  if (first === undefined) return [[fallbackId, null], null];
  const firstId = rest.length === 0 ? fallbackId : derivedId(fallbackId, 'chain');
  return rest.reduce<ResultTuple>(
    (before, text) => {
      const id = textIn(readSignature(text).options, 'task_id');
      return id === null ? before : [[id, before], null];
    },
    resultOf(first, firstId),
  );
}

const tasksOf = ({ kwargs }: Signature): readonly string[] =>
  listIn(membersOf(kwargs), 'tasks') ?? [];
