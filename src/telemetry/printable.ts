/**
 * Characters that a terminal or a log viewer obeys instead of showing: control characters of both sets, line separators,
 * and bidirectional marks. Names, errors and payloads may come from any sender.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escape = (letter: string): string =>
  SHORT[letter] ?? `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** One line of text in which everything is visible: a line feed in it starts no second line. */
export function printable(text: string): string {
  return text.replaceAll(OBEYED, escape);
}

/** The same for JSON on one line, which keeps its meaning: JSON itself escapes the lower control characters only. */
export function printableJson(json: string): string {
  return json.replaceAll(OBEYED, letter => (letter < ' ' ? ' ' : escape(letter)));
}
