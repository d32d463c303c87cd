import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { outlastError } from '../errors/error.ts';

/**
 * A file of this package that threads and processes are started from. A bundler takes the code that names it and leaves the file
 * behind: without this check a worker would start a thread that cannot load, again and again, without reporting why.
 */
export function ownPart(locate: () => URL): URL {
  const url = located(locate);
  if (url !== null && existsSync(url)) return url;
  const file = url === null ? 'a part of Outlast' : fileURLToPath(url);
  throw outlastError('ERR_PARTS_MISSING', {
    message: `${file} is missing: Outlast starts threads and processes from files of its package`,
    hint: 'Do not bundle it: mark `outlast` as external (esbuild: --external:outlast --external:outlast/*) and install it beside the bundle.',
    fields: { file },
  });
}

/** A bundle in CommonJS has no URL of its own, and so none of its parts. */
function located(locate: () => URL): URL | null {
  try {
    return locate();
  } catch {
    return null;
  }
}
