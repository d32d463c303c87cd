/** What a command may say: data on stdout, everything else on stderr. */
export interface Output {
  /** One JSON document, fields in snake_case. */
  json(data: object): void;
  line(text: string): void;
  note(text: string): void;
  table(rows: readonly Readonly<Record<string, unknown>>[], columns: readonly string[]): void;
}

export function createOutput(
  stdout: (text: string) => void,
  stderr: (text: string) => void,
): Output {
  return {
    json: data => stdout(`${JSON.stringify(snakeCased(data))}\n`),
    line: text => stdout(`${visible(text)}\n`),
    note: text => stderr(`${visible(text)}\n`),
    table: (rows, columns) => stdout(formatTable(rows, columns)),
  };
}

/** Control characters in a task's name or error must not reach a terminal; line breaks and tabs are harmless. */
function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\uFFFD');
}

function formatTable(
  rows: readonly Readonly<Record<string, unknown>>[],
  columns: readonly string[],
): string {
  const cells = [
    columns.map(column => column.toUpperCase()),
    ...rows.map(row => columns.map(column => cell(row[column]))),
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

const cell = (value: unknown): string =>
  visible(String(value ?? ''))
    .replaceAll(/\s+/g, ' ')
    .slice(0, 80);

/** `deadAt` becomes `dead_at`, all the way down; bytes become base64. */
export function snakeCased(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(snakeCased);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [snake(key), snakeCased(item)]),
  );
}

const snake = (key: string): string =>
  key.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
