import { plain } from './headers.ts';

/**
 * Celery's stamps (5.3 and later): labels that a sender put on a task, by name, which every process hands on unchanged and by
 * which tasks can be revoked. A value is anything that JSON has; a list stands for each of its members.
 */
export type Stamps = Readonly<Record<string, unknown>>;

type Table = Readonly<Record<string, unknown>>;

const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The stamps of a message; undefined: it has none. Names without a value are left out. */
export function stampsOf(headers: Table): Stamps | undefined {
  const [names, values] = [headers['stamped_headers'], headers['stamps']];
  if (!Array.isArray(names) || names.length === 0 || !isTable(values)) return undefined;
  return pick(names, name => (Object.hasOwn(values, name) ? plain(values[name]) : undefined));
}

/** The same from the options of a signature, where each stamp is an option of its own. */
export function pick(
  names: readonly unknown[],
  valueOf: (name: string) => unknown,
): Stamps | undefined {
  const found = names
    .filter(name => typeof name === 'string')
    .map(name => [name, valueOf(name)] as const)
    .filter(([name, value]) => value !== undefined && name !== '__proto__');
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** The headers from which a Celery worker reads the stamps. */
export const stampHeaders = (stamps: Stamps): Table => ({
  stamped_headers: Object.keys(stamps),
  stamps,
});

export const asList = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : [value];
