import type { RequestReader } from './request-context.ts';

/** The part of Node's request that is needed; Express's and Nest's have it too. */
export interface RequestLike {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export function readNodeRequest(request: RequestLike): RequestReader {
  return {
    id: (request as { readonly id?: unknown }).id,
    header: name => {
      const value = request.headers[name];
      return typeof value === 'string' ? value : undefined;
    },
  };
}
