import { itemsOf, membersOf } from '../../task/json-slices.ts';

/** As many groups in one another as follow-ups may have. */
const DEEPEST = 32;

/**
 * The results of a header, in their order. Where a group ends a chain of the header, Celery has saved the shape of the
 * header, `{"result": [[id, parent], [member, …]]}`, in which a member is such a group too or `[[id, parent], null]`: then
 * the results of each group are one list. `parts` are `[1, id, state, value]`; values stay as they were written.
 */
export function resultsInShape(parts: readonly string[], shape?: Buffer | null): readonly string[] {
  const items = parts.map(itemsOf);
  const flat = items.map(([, , , value = 'null']) => value);
  if (!shape) return flat;
  const byId = new Map(items.map(([, id], at) => [idOf(id), flat[at] ?? 'null']));
  try {
    return membersIn(membersOf(shape.toString()).get('result')).map(one => arranged(one, byId, 1));
  } catch {
    // It was not saved by Celery, or a part has another id than it was sent with.
    return flat;
  }
}

function arranged(member: string, byId: ReadonlyMap<string, string>, depth: number): string {
  if (depth > DEEPEST) throw new RangeError('groups are nested too deep');
  const [own, members = 'null'] = itemsOf(member);
  if (members !== 'null')
    return `[${membersIn(member)
      .map(one => arranged(one, byId, depth + 1))
      .join(', ')}]`;
  const value = byId.get(idOf(itemsOf(own ?? '')[0]));
  if (value === undefined) throw new RangeError('a result is missing');
  return value;
}

const idOf = (text = '""'): string => String(JSON.parse(text));

const membersIn = (group = ''): readonly string[] => itemsOf(itemsOf(group)[1] ?? '');
