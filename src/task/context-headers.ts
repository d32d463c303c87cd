import { toUSVString } from 'node:util';

/**
 * The context of a task: short texts such as a request id, captured where it was sent. Each travels as a header under its own
 * name, so that workers in any language read it there; one more header lists which headers these are.
 */

/** Texts by name, for example `{ requestId: 'r-17' }`. */
export type ContextValues = Readonly<Record<string, string>>;

/** What is captured where a task is sent: names of bound values, or a function that returns values. */
export type ContextOption = readonly string[] | (() => Readonly<Record<string, unknown>>);

type Headers = Readonly<Record<string, string>>;

export const CONTEXT_HEADER = 'outlast-context';
export const NO_CONTEXT: ContextValues = Object.freeze({});

/** Every log line of a task has them, and every step of a workflow carries them. */
export const MAX_CONTEXT_KEYS = 16;
const MAX_CONTEXT_LENGTH = 256;

const KEY = /^[A-Za-z][\w.-]{0,63}$/;

/** Names that are also members of objects would break readers. */
export const isContextKey = (key: string): boolean => KEY.test(key) && !(key in Object.prototype);

/** What may be kept of these values: the first few, texts of bounded length, under safe names. Never throws for plain data. */
export function boundedContext(values: object): ContextValues {
  const found: Record<string, string> = {};
  let left = MAX_CONTEXT_KEYS;
  for (const [key, value] of Object.entries(values) as [string, unknown][]) {
    const text = textOf(value);
    if (text === null || !isContextKey(key)) continue;
    if (left-- === 0) break;
    found[key] = toUSVString(text.slice(0, MAX_CONTEXT_LENGTH));
  }
  return found;
}

/** Null: it is no text, number or boolean, so it has no short form that anybody expects. */
function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint'
    ? String(value)
    : null;
}

/** The headers in which it travels; none for an empty context. */
export function contextHeaders(values: ContextValues): Headers {
  const keys = Object.keys(values);
  return keys.length === 0 ? values : { ...values, [CONTEXT_HEADER]: keys.join(',') };
}

/** The longest list of names that `contextHeaders` writes. */
const MAX_LIST_LENGTH = MAX_CONTEXT_KEYS * 65;

/** The context in the headers of a task of any sender. */
export function contextIn(headers: Headers | undefined): ContextValues {
  const list = headers?.[CONTEXT_HEADER];
  if (headers === undefined || list === undefined || list.length > MAX_LIST_LENGTH)
    return NO_CONTEXT;
  const named = list.split(',').filter(key => isContextKey(key) && Object.hasOwn(headers, key));
  return boundedContext(Object.fromEntries(named.map(key => [key, headers[key]])));
}
