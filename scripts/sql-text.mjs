// @ts-check
/**
 * @typedef {'code' | 'quoted' | 'comment'} PieceKind
 * @typedef {{ kind: PieceKind, text: string }} Piece
 */

/** What is not plain code: the reasons why a `;` or a `$1` may not mean what it seems to. */
const SPECIAL =
  /--[^\n]*|\/\*|\b[eE]'(?:[^'\\]|\\[^]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?:[A-Za-z_]\w*)?\$/g;

/**
 * Cuts SQL into code, quoted text and comments, by the lexical rules of PostgreSQL.
 * @param {string} sql
 * @returns {Piece[]}
 */
export function cutSql(sql) {
  /** @type {Piece[]} */
  const pieces = [];
  let at = 0;
  const finder = new RegExp(SPECIAL);
  for (let match = finder.exec(sql); match !== null; match = finder.exec(sql)) {
    const end = endOfPiece(sql, match);
    if (match.index > at) pieces.push({ kind: 'code', text: sql.slice(at, match.index) });
    const kind = /^(--|\/\*)/.test(match[0]) ? 'comment' : 'quoted';
    pieces.push({ kind, text: sql.slice(match.index, end) });
    at = end;
    finder.lastIndex = end;
  }
  if (at < sql.length) pieces.push({ kind: 'code', text: sql.slice(at) });
  return pieces;
}

/**
 * @param {string} sql
 * @param {RegExpExecArray} match
 */
function endOfPiece(sql, { 0: opening, index }) {
  if (opening === '/*') return endOfBlockComment(sql, index);
  const after = index + opening.length;
  if (!opening.startsWith('$')) return after;
  const close = sql.indexOf(opening, after);
  return close === -1 ? sql.length : close + opening.length;
}

/**
 * Block comments nest in PostgreSQL, unlike anywhere else.
 * @param {string} sql
 * @param {number} start
 */
function endOfBlockComment(sql, start) {
  let depth = 0;
  for (const match of sql.slice(start).matchAll(/\/\*|\*\//g)) {
    depth += match[0] === '/*' ? 1 : -1;
    if (depth === 0) return start + match.index + 2;
  }
  return sql.length;
}

/** What looks like a comment and is not one: the marks of schemas and of kept plans, and what one kind of MySQL server executes. */
const MEANT = /^\/\*( (schema|kept plan) \*\/$|M?!)/;

/**
 * The SQL without its comments. The schema marker stays: it is what a table name is qualified by.
 * @param {readonly Piece[]} pieces
 */
export function withoutComments(pieces) {
  let text = '';
  let isLineGone = false;
  for (const piece of pieces) {
    if (piece.kind === 'comment' && !MEANT.test(piece.text)) {
      // A comment that had its line to itself takes the line with it.
      isLineGone = /(^|\n)[ \t]*$/.test(text);
      if (isLineGone || piece.text.startsWith('--')) text = text.replace(/[ \t]+$/, '');
      continue;
    }
    text += isLineGone ? piece.text.replace(/^[ \t]*\n/, '') : piece.text;
    isLineGone = false;
  }
  return text.trim();
}

/**
 * The numbers of the placeholders in the order of their first use.
 * @param {readonly Piece[]} pieces
 */
export function placeholders(pieces) {
  const numbers = pieces
    .filter(piece => piece.kind === 'code')
    .flatMap(piece => [...piece.text.matchAll(/\$(\d+)/g)].map(match => Number(match[1])));
  return [...new Set(numbers)];
}

/**
 * The SQL with `?` for its numbered parameters, and for each `?` the parameter it stands for, counted from 0. Drivers of
 * MySQL know places only.
 * @param {readonly Piece[]} pieces
 */
export function withPlaces(pieces) {
  /** @type {number[]} */
  const order = [];
  const placed = pieces.map(piece => {
    if (piece.kind !== 'code') return piece;
    const text = piece.text.replace(/\$(\d+)/g, (_, number) => {
      order.push(Number(number) - 1);
      return '?';
    });
    return { ...piece, text };
  });
  return { pieces: placed, order };
}

/**
 * How many statements there are: parts between semicolons that hold more than comments.
 * @param {readonly Piece[]} pieces
 */
export function countStatements(pieces) {
  const code = pieces.map(({ kind, text }) =>
    kind === 'code' ? text : kind === 'quoted' ? 'quoted' : ' ',
  );
  return code
    .join('')
    .split(';')
    .filter(part => part.trim() !== '').length;
}

/**
 * The statements one by one, without comments: the extended protocol takes one at a time.
 * @param {readonly Piece[]} pieces
 */
export function splitStatements(pieces) {
  /** @type {Piece[][]} */
  const statements = [[]];
  for (const piece of pieces) {
    const [head = '', ...rest] = piece.kind === 'code' ? piece.text.split(';') : [piece.text];
    statements.at(-1)?.push({ ...piece, text: head });
    for (const text of rest) statements.push([{ ...piece, text }]);
  }
  return statements.map(withoutComments).filter(text => text !== '');
}
