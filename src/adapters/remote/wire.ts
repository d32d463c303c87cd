import { deserialize, serialize } from 'node:v8';
import type { SqlParam, SqlRow } from '../sql/sql-database.ts';
import type { WireError } from '../../errors/wire-error.ts';
import { type OutlastError, outlastError } from '../../errors/error.ts';

/**
 * The messages between a process that holds the database and one that does not. Both run the same
 * package on one machine, so the format is Node's own structured clone: bytes stay bytes. It is
 * read only after the token was checked.
 *
 *   client                                server
 *   token, 32 bytes                  ──►
 *                                    ◄──  { protocol }
 *   { id, op, ... }                  ──►
 *                                    ◄──  { id, rows } or { id, error }, in any order
 *                                    ◄──  { hint: channel }, at any time
 */
export const PROTOCOL = 1;

export const TOKEN_BYTES = 32;

/** A statement without `params` may hold several commands. `tx` names the `begin` it belongs to. */
export type RequestBody =
  | {
      readonly op: 'query';
      readonly text: string;
      readonly params: readonly SqlParam[] | undefined;
      readonly tx: number | null;
    }
  | { readonly op: 'begin' }
  | { readonly op: 'commit' | 'rollback'; readonly tx: number }
  | { readonly op: 'listen' | 'unlisten'; readonly channel: string };

export type Request = RequestBody & { readonly id: number };

export type Reply =
  | { readonly protocol: number }
  | { readonly id: number; readonly rows: readonly SqlRow[] }
  | { readonly id: number; readonly error: WireError }
  | { readonly hint: string };

export function encode(message: Request | Reply): Buffer {
  return serialize(message);
}

export function decodeRequest(payload: Buffer): Request {
  return deserialize(payload) as Request;
}

export function decodeReply(payload: Buffer): Reply {
  return deserialize(payload) as Reply;
}

/**
 * Where a process serves its database to others on this machine. A process that knows it may read
 * and write everything.
 */
export interface Endpoint {
  /** TCP port on 127.0.0.1. */
  readonly port: number;
  /** 32 random bytes in hexadecimal. */
  readonly token: string;
}

/** The database of another process, or our own after its end, cannot be reached. */
export function storeUnavailable(
  message: string,
  hint: string,
  cause?: unknown,
): OutlastError<'ERR_STORE_UNAVAILABLE'> {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message,
    hint,
    fields: {},
    ...(cause === undefined ? {} : { cause }),
  });
}
