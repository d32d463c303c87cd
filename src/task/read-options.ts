import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes, toText } from './json.ts';
import { hasMark, MARKS } from './marks.ts';

/** The options of most tasks. They share one object, so that it need not be read again. */
export const NO_OPTIONS: EnvelopeOptions = Object.freeze({});
const UNKEPT: EnvelopeOptions = Object.freeze({ keepResult: false });

export const NO_OPTIONS_BYTES: Uint8Array = toBytes('{}');
/** For a task whose result is not kept, and which has no other options. */
const UNKEPT_BYTES: Uint8Array = toBytes(`{${MARKS.unkept}}`);

/** The bytes of the options that most tasks have: none, or one of these. They need not be read to be written. */
export function fewOptions(isUnkept: boolean, path: string | undefined): Uint8Array {
  if (path === undefined) return isUnkept ? UNKEPT_BYTES : NO_OPTIONS_BYTES;
  return toBytes(`{${isUnkept ? `${MARKS.unkept},` : ''}"path":"${path}"}`);
}

export function readOptions({ options }: Pick<Envelope, 'options'>): EnvelopeOptions {
  if (options.length <= 2) return NO_OPTIONS;
  if (options === UNKEPT_BYTES) return UNKEPT;
  return JSON.parse(toText(options)) as EnvelopeOptions;
}

type Headers = Readonly<Record<string, string>>;

/**
 * The headers of a task whose options have this mark: most have none, which a look at the bytes tells. It is asked before the
 * bytes are checked, and beside the steps of a task, which must not fail by it: what cannot be read counts as absent.
 */
export function markedHeaders(
  { options }: Pick<Envelope, 'options'>,
  mark: string,
): Headers | null {
  if (!hasMark(options, mark)) return null;
  try {
    const { headers } = JSON.parse(toText(options)) as { readonly headers?: object };
    const texts = Object.entries(headers ?? {}).filter(([, text]) => typeof text === 'string');
    return Object.fromEntries(texts as [string, string][]);
  } catch {
    return null;
  }
}
