import type { OptionRow } from '../options/option.ts';

export const code = (text: string): string => `\`${text}\``;

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = rows.map(cells => line(cells.map(cell => cell.replaceAll('|', '\\|'))));
  return [line(head), line(head.map(() => '---')), ...lines].join('\n');
}

/** The default, as a table of the reference shows it. */
export function defaultCell({ default: value, defaultNote = '' }: OptionRow): string {
  if (value === undefined) return defaultNote === '' ? 'none' : defaultNote;
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return `${code(text === '' ? "''" : text)}${defaultNote}`;
}

export const meaningOf = ({ sentence, more }: OptionRow): string =>
  more === undefined ? sentence : `${sentence} ${more}`;
