// @ts-check
/**
 * @typedef {object} Row one line of a figure
 * @property {string} name
 * @property {number} value median of the rounds
 * @property {string} unit
 * @property {readonly number[]} rounds
 *
 * @typedef {object} Ratio
 * @property {string} name
 * @property {number} value
 * @property {string} bar what `DESIGN` asks for; empty where it asks for nothing
 *
 * @typedef {object} Figure
 * @property {string} name
 * @property {string} title
 * @property {readonly Row[]} rows
 * @property {readonly Ratio[]} ratios
 * @property {readonly string[]} notes
 */

/** @param {Figure} figure */
export function printFigure({ name, title, rows, ratios, notes }) {
  console.log(`\n${name}: ${title}\n`);
  printColumns(
    rows.map(row => [
      row.name,
      `${short(row.value)} ${row.unit}`,
      row.rounds.map(short).join('  '),
    ]),
  );
  if (ratios.length > 0) console.log('');
  printColumns(ratios.map(({ name: what, value, bar }) => [what, value.toFixed(2), bar]));
  for (const note of notes) console.log(`\n  ${note}`);
}

/** @param {readonly (readonly string[])[]} lines */
function printColumns(lines) {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map(line => (line[column] ?? '').length)),
  );
  for (const line of lines) {
    const cells = line.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 1 ? cell.padStart(width) : cell.padEnd(width);
    });
    console.log(`  ${cells.join('   ')}`.trimEnd());
  }
}

/** @param {number} value */
function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value < 1 ? value.toFixed(3) : value.toFixed(1);
}
