/** As long as Celery makes them. They are for logs and dashboards; no program parses them. */
const MAX_CHARS = 1_024;
/** Scan no further than this: the text is cut anyway. */
const MAX_SCAN = 4_096;
const decoder = new TextDecoder('utf-8');

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
/** Both kinds of bracket differ only in this bit. */
const [OPENING, CLOSING, KIND] = [0x5b, 0x5d, 0x20];

/** The arguments of a body in readable form. */
export interface CallDescription {
  readonly args: string;
  readonly kwargs: string;
}

/** Cuts `args` and `kwargs` out of `[args, kwargs, embed]` without parsing a body that may be a megabyte. */
export function describeCall(body: Uint8Array): CallDescription {
  const argsEnd = endOfValue(body, 1);
  const args = textOf(body, 1, argsEnd);
  if (argsEnd === null || body[argsEnd] !== COMMA) return { args, kwargs: '...' };
  return { args, kwargs: textOf(body, argsEnd + 1, endOfValue(body, argsEnd + 1)) };
}

/** Where the array or object that starts here ends; null if that is beyond the scan limit. */
function endOfValue(body: Uint8Array, start: number): number | null {
  const limit = Math.min(body.length, start + MAX_SCAN);
  let depth = 0;
  let isInText = false;
  for (let at = start; at < limit; at++) {
    const byte = body[at] as number;
    if (isInText) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isInText = false;
    } else if (byte === QUOTE) isInText = true;
    else if ((byte & ~KIND) === OPENING) depth++;
    else if ((byte & ~KIND) === CLOSING && --depth <= 0) return at + 1;
  }
  return null;
}

function textOf(body: Uint8Array, start: number, end: number | null): string {
  const text = decoder.decode(body.subarray(start, end ?? start + MAX_SCAN)).trim();
  return end === null ? `${text.slice(0, MAX_CHARS)}...` : shorten(text);
}

export function shorten(text: string): string {
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}...`;
}
