// @ts-check
/** @typedef {{ specifier: string, line: number }} ImportLine */

/**
 * The parts of a source text that are not code. A slash starts a regular expression only where no
 * value can end; anywhere else it divides.
 */
const NOT_CODE =
  /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[^])*`|(?<=(?:^|[=(,:;!&|?{}[\n]|return|=>)[ \t]*)\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g;

const IMPORTS = [
  // import a, { type B } from 'x'; export { c } from 'x'; export * as d from 'x'
  /\b(?:import|export)\s+[\w$*\s{},]+?\sfrom\s*(['"])([^'"\n]+)\1/dg,
  // import 'x'
  /\bimport\s*(['"])([^'"\n]+)\1/dg,
  // await import('x'), and typeof import('x') in a type
  /\bimport\s*\(\s*(['"])([^'"\n]+)\1/dg,
];

/**
 * Every module a source text names, with the line of the name, in order.
 * @param {string} text
 * @returns {ImportLine[]}
 */
export function readImports(text) {
  const code = maskSource(text, { strings: false });
  const found = IMPORTS.flatMap(pattern =>
    [...code.matchAll(pattern)].map(match => ({
      specifier: match[2] ?? '',
      at: match.indices?.[2]?.[0] ?? match.index,
    })),
  );
  return found
    .sort((a, b) => a.at - b.at)
    .map(({ specifier, at }) => ({ specifier, line: code.slice(0, at).split('\n').length }));
}

/**
 * The text with comments, templates, patterns and, if asked, strings blanked out; lines stay.
 * @param {string} text
 * @param {{ strings: boolean }} what
 */
export function maskSource(text, { strings }) {
  return text.replace(NOT_CODE, part => {
    if (!strings && /^['"]/.test(part)) return part;
    return part.replace(/[^\n]/g, ' ');
  });
}
