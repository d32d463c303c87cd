const BACKSLASH = 0x5c;
const HEX_PREFIX = '\\x';

/**
 * Bytes from the text of a `bytea`, in either form of `bytea_output`: `\x` and digits, or ASCII characters with `\\` and
 * `\ooo` for the rest. The form is a setting of the database or the role, and ours does not reach a session behind a
 * pooler. A text in the second form never begins with `\x`: its backslashes stand before digits or another backslash.
 */
export function readBytea(text: string): Buffer {
  return text.startsWith(HEX_PREFIX) ? Buffer.from(text.slice(2), 'hex') : readEscaped(text);
}

function readEscaped(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; length++) {
    const isEscape = bytes[at] === BACKSLASH;
    const isDoubled = isEscape && bytes[at + 1] === BACKSLASH;
    // Written over bytes that were read already: the decoded form is never longer.
    bytes[length] =
      isEscape && !isDoubled
        ? Number.parseInt(text.slice(at + 1, at + 4), 8)
        : (bytes[at] as number);
    at += isDoubled ? 2 : isEscape ? 4 : 1;
  }
  return bytes.subarray(0, length);
}
