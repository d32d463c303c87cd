import type { Envelope, EnvelopeOptions } from './envelope.ts';
import { toBytes, toText } from './json.ts';

/** The options of most tasks. They have them in common: whoever looks at them need not read them again. */
export const NO_OPTIONS: EnvelopeOptions = Object.freeze({});
const UNKEPT: EnvelopeOptions = Object.freeze({ keepResult: false });

export const NO_OPTIONS_BYTES: Uint8Array = toBytes('{}');
/** Of a task whose result nobody wants, and which has no others. */
export const UNKEPT_BYTES: Uint8Array = toBytes('{"keepResult":false}');

export function readOptions({ options }: Pick<Envelope, 'options'>): EnvelopeOptions {
  if (options.length <= 2) return NO_OPTIONS;
  if (options === UNKEPT_BYTES) return UNKEPT;
  return JSON.parse(toText(options)) as EnvelopeOptions;
}
