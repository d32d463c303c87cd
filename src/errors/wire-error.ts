import { ERROR_FAMILY, type ErrorCode } from './codes.ts';
import { isOutlastError, outlastError } from './error.ts';

/** An error as it goes to another process or thread. Structured clone would drop its code. */
export interface WireError {
  readonly name: string;
  readonly message: string;
  /** Set for Outlast's own errors, which are created anew on the other side. */
  readonly hint: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The fields of a PostgreSQL error. Parameters are left out: they may hold secrets. */
const SQL_FIELDS = [
  'code',
  'severity',
  'detail',
  'hint',
  'position',
  'where',
  'schema',
  'table',
  'column',
  'dataType',
  'constraint',
  'routine',
] as const;

export function encodeError(error: unknown): WireError {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: String(error), hint: null, fields: {} };
  }
  const { name, message } = error;
  if (isOutlastError(error)) return { name, message, hint: error.hint, fields: ownFields(error) };
  const entries = SQL_FIELDS.map(field => [field, (error as SqlErrorLike)[field]] as const);
  const known = entries.filter(
    ([, value]) => typeof value === 'string' || typeof value === 'number',
  );
  return { name, message, hint: null, fields: Object.fromEntries(known) };
}

/** Code, hint and the fields of the code: everything specific to an Outlast error. */
function ownFields(error: Error): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(error));
}

type SqlErrorLike = Error & { readonly [field in (typeof SQL_FIELDS)[number]]?: unknown };

export function decodeError({ name, message, hint, fields }: WireError): Error {
  const { code } = fields;
  if (hint !== null && isErrorCode(code)) {
    return outlastError(code, { message, hint, fields });
  }
  return Object.assign(new Error(message), fields, { name });
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERROR_FAMILY, code);
}
