import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes, toText } from './json.ts';
import { MARKS } from './marks.ts';

/** The options of most tasks. They share one object, so that it need not be read again. */
export const NO_OPTIONS: EnvelopeOptions = Object.freeze({});
const UNKEPT: EnvelopeOptions = Object.freeze({ keepResult: false });

export const NO_OPTIONS_BYTES: Uint8Array = toBytes('{}');
/** For a task whose result is not kept, and which has no other options. */
export const UNKEPT_BYTES: Uint8Array = toBytes(`{${MARKS.unkept}}`);

export function readOptions({ options }: Pick<Envelope, 'options'>): EnvelopeOptions {
  if (options.length <= 2) return NO_OPTIONS;
  if (options === UNKEPT_BYTES) return UNKEPT;
  return JSON.parse(toText(options)) as EnvelopeOptions;
}
