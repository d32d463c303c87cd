import { createHash } from 'node:crypto';

const names = new Map<string, string>();

/** A name under which a session keeps the plan of a statement: the same text has the same name everywhere. */
export function statementName(text: string): string {
  const known = names.get(text);
  if (known !== undefined) return known;
  const name = `outlast_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  names.set(text, name);
  return name;
}
