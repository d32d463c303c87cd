/** `shop.*` as a pattern: `*` stands for any text, `?` for one character, every other character for itself. */
export function globPattern(glob: string): RegExp {
  const parts = glob.replaceAll(/[\\^$.|+()[\]{}]/g, String.raw`\$&`);
  return new RegExp(`^${parts.replaceAll('*', '.*').replaceAll('?', '.')}$`, 'su');
}

/** The same for SQL's LIKE with a backslash as its escape; null stays null. */
export function likePattern(glob: string | null): string | null {
  if (glob === null) return null;
  const escaped = glob.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return escaped.replaceAll('*', '%').replaceAll('?', '_');
}
