/** What a command may say: data on stdout, everything else on stderr. */
export interface Output {
  /** One JSON document, fields in snake_case. */
  json(data: object): void;
  line(text: string): void;
  note(text: string): void;
  table(rows: readonly object[], columns: readonly string[]): void;
}

export function createOutput(
  stdout: (text: string) => void,
  stderr: (text: string) => void,
): Output {
  return {
    json: data => stdout(`${toJson(data)}\n`),
    line: text => stdout(`${visible(text)}\n`),
    note: text => stderr(`${visible(text)}\n`),
    table: (rows, columns) => stdout(formatTable(rows, columns)),
  };
}

/** JSON text that is printed as it is: a value of the user's, whose keys and numbers are not ours to change. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Control characters in a task's name or error must not reach a terminal; line breaks and tabs are harmless. */
function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\uFFFD');
}

function formatTable(rows: readonly object[], columns: readonly string[]): string {
  const cells = [
    columns.map(column => snake(column).toUpperCase()),
    ...rows.map(row => columns.map(column => cell((row as Record<string, unknown>)[column]))),
  ];
  const widths = columns.map((_, index) =>
    Math.max(...cells.map(line => line[index]?.length ?? 0)),
  );
  return cells
    .map(
      line =>
        `${line
          .map((text, index) => text.padEnd(widths[index] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

function cell(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return visible(text).replaceAll(/\s+/g, ' ');
}

/** One line of JSON: `deadAt` becomes `dead_at`, all the way down; bytes become base64, a bigint an integer. */
export function toJson(value: unknown): string {
  return escapeControls(encode(value) ?? 'null');
}

function encode(value: unknown): string | undefined {
  if (value instanceof JsonText) return value.text;
  if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString('base64'));
  if (Array.isArray(value)) return `[${value.map(item => encode(item) ?? 'null').join(',')}]`;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, item]) => [snake(key), encode(item)] as const);
  const kept = members.filter(([, text]) => text !== undefined);
  return `{${kept.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`;
}

/** JSON escapes only the lower control characters; a terminal obeys the upper ones as well. */
export function escapeControls(json: string): string {
  return json.replaceAll(
    /[\u007f-\u009f]/g,
    letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const snake = (key: string): string =>
  key.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
