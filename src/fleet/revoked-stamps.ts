import { asList, type Stamps } from '../wire/stamps.ts';

/** Values that are remembered for each name, and names. Celery has no limit. */
const MOST_VALUES = 10_000;
const MOST_NAMES = 1_000;

/** What `revoke_by_stamped_headers` asks for: values by the name of the stamp. */
export type StampedHeaders = ReadonlyMap<string, readonly unknown[]>;

/** Reads the argument `headers`: a table, or texts `name=value`, as the command line sends them. */
export function readStampedHeaders(given: unknown): StampedHeaders {
  if (Array.isArray(given)) {
    const pairs = given.map(text => String(text).split('='));
    if (pairs.some(pair => pair.length < 2)) throw new TypeError('it needs name=value');
    return new Map(pairs.map(([name = '', value]) => [name, [value]]));
  }
  if (typeof given !== 'object' || given === null) throw new TypeError('it needs stamped headers');
  return new Map(Object.entries(given).map(([name, value]) => [name, asList(value)]));
}

/** The stamps that were revoked since this process started. As with Celery, a worker that starts later does not know them. */
export class RevokedStamps {
  readonly #values = new Map<string, Set<string>>();

  get isEmpty(): boolean {
    return this.#values.size === 0;
  }

  add(headers: StampedHeaders): void {
    for (const [name, values] of headers) {
      if (this.#values.size >= MOST_NAMES && !this.#values.has(name)) continue;
      const known = this.#values.get(name) ?? new Set();
      for (const value of values) if (known.size < MOST_VALUES) known.add(JSON.stringify(value));
      this.#values.set(name, known);
    }
  }

  matches(stamps: Stamps | undefined): boolean {
    return Object.entries(stamps ?? {}).some(([name, value]) => {
      const revoked = this.#values.get(name);
      return revoked !== undefined && asList(value).some(one => revoked.has(JSON.stringify(one)));
    });
  }
}

/** The stamps of a task that are among these; empty: none is. */
export function matchingStamps(
  headers: StampedHeaders,
  stamps: Stamps | undefined,
): readonly (readonly [string, unknown])[] {
  return [...headers].flatMap(([name, values]) => {
    const wanted = new Set(values.map(value => JSON.stringify(value)));
    const own = stamps === undefined || !Object.hasOwn(stamps, name) ? [] : asList(stamps[name]);
    return own
      .filter(value => wanted.has(JSON.stringify(value)))
      .map(value => [name, value] as const);
  });
}

/** As Python shows it: Celery's answers have it so. */
export function pythonRepr(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') {
    const text = value.replaceAll('\\', '\\\\');
    return text.includes("'") && !text.includes('"')
      ? `"${text}"`
      : `'${text.replaceAll("'", "\\'")}'`;
  }
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const pairs = Object.entries(value).map(
    ([name, item]) => `${pythonRepr(name)}: ${pythonRepr(item)}`,
  );
  return `{${pairs.join(', ')}}`;
}
