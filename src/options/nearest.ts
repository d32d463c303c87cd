const plain = (word: string): string => word.toLowerCase().replaceAll(/[-_]/g, '');

/** The known word that a person most likely meant, or null when none is near. */
export function nearest(word: string, known: readonly string[]): string | null {
  const target = plain(word);
  let best: string | null = null;
  // A third of the letters may be wrong; beyond that a guess misleads more than it helps.
  let bestDistance = Math.max(2, Math.floor(target.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(target, plain(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Insertions, deletions and replacements between two words (Levenshtein, one row at a time). */
export function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
