/** Handlers get texts; any other value of a Python producer becomes its JSON. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'bigint' ? item.toString() : item,
  );
}

const SHOWN_HEADERS = 100;
const SHOWN_CHARS = 500;

/** For the dead letter: every header as received, each cut to a bounded length. */
export function textsOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const entries = Object.entries(headers).slice(0, SHOWN_HEADERS);
  return Object.fromEntries(entries.map(([name, value]) => [name.slice(0, 128), shown(value)]));
}

export function shown(value: unknown): string {
  try {
    return (textOf(value) ?? 'undefined').slice(0, SHOWN_CHARS);
  } catch {
    return 'a value that cannot be shown';
  }
}
