import { printable, printableJson } from '../telemetry/logger.ts';

/** The output of a command: data on stdout, everything else on stderr. */
export interface Output {
  /** One JSON document, fields in snake_case. */
  json(data: object): void;
  /** Always one line: a line feed in an error or a name starts no second one. */
  line(text: string): void;
  lines(texts: readonly string[]): void;
  note(text: string): void;
  notes(texts: readonly string[]): void;
  table(rows: readonly object[], columns: readonly string[]): void;
}

export function createOutput(
  stdout: (text: string) => void,
  stderr: (text: string) => void,
): Output {
  return {
    json: data => stdout(`${toJson(data)}\n`),
    line: text => stdout(`${printable(text)}\n`),
    lines: texts => stdout(texts.map(text => `${printable(text)}\n`).join('')),
    note: text => stderr(`${printable(text)}\n`),
    notes: texts => stderr(texts.map(text => `${printable(text)}\n`).join('')),
    table: (rows, columns) => stdout(formatTable(rows, columns)),
  };
}

/** JSON text that is printed unchanged: a value of the user's, whose keys and numbers must not be rewritten. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
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
  return printable(text.replaceAll(/\s+/g, ' '));
}

/** One line of JSON: `deadAt` becomes `dead_at`, all the way down; bytes become base64, a bigint an integer. */
export function toJson(value: unknown): string {
  return printableJson(encode(value) ?? 'null');
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

const snake = (key: string): string =>
  key.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
