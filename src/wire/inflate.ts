import * as zlib from 'node:zlib';
import { shown } from './headers.ts';
import { tooLarge, Unreadable } from './unreadable.ts';

type Inflate = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array;

/** Node has it from 22.15 on. */
const { zstdDecompressSync } = zlib as { readonly zstdDecompressSync?: Inflate };

/** What kombu writes into `compression`. Its gzip is a bare zlib stream. */
const READ: ReadonlyMap<unknown, Inflate> = new Map<unknown, Inflate>([
  ['application/x-gzip', zlib.inflateSync],
  ['application/x-brotli', zlib.brotliDecompressSync],
  ...(zstdDecompressSync ? ([['application/zstd', zstdDecompressSync]] as const) : []),
]);

/** The bytes of a body, inflated to `maxBytes` at most. What Node cannot inflate is refused: nothing is guessed. */
export function inflated(compression: unknown, body: Uint8Array, maxBytes: number): Uint8Array {
  if (compression === undefined) return body;
  const inflate = READ.get(compression);
  if (inflate === undefined) throw new Unreadable(`it is compressed as ${shown(compression)}`);
  try {
    return inflate(body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw error;
    throw tooLarge(`has ${body.length} bytes and more than that inflated`, maxBytes);
  }
}
