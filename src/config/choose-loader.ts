import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { findModules } from './match-modules.ts';
import { findJiti, isForJiti, isTypeScript, type LoaderKind } from './module-loader.ts';

/** Text in quotes with a slash in it: perhaps a pattern of `tasks`. */
const QUOTED = /(['"`])([^'"`\n]*\/[^'"`\n]*)\1/g;

/**
 * The loader for a config file of code, chosen before anything of it runs: once a module has been evaluated, another loader would
 * make a second copy of it, and so a second pool. What `tasks` says is known only when the file has run, so every text in it that
 * could be a pattern counts; one module too many does no harm.
 */
export async function chooseLoader(file: string): Promise<LoaderKind> {
  const texts = [...readFileSync(file, 'utf8').matchAll(QUOTED)].map(([, , text = '']) => text);
  return await chooseFor([file, ...findModules(texts, file)], file);
}

/** The loader for modules that are known: where the config file is JSON, or an object. */
export async function chooseLoaderFor(
  patterns: readonly string[],
  base: string,
): Promise<LoaderKind> {
  return await chooseFor(findModules(patterns, base), base);
}

async function chooseFor(files: readonly string[], base: string): Promise<LoaderKind> {
  const own = files.filter(isTypeScript);
  if (own.length === 0 || findJiti(base) === null) return 'native';
  const error = await linkError(own);
  return error !== null && isForJiti(error) ? 'jiti' : 'native';
}

const LINKED = 'outlastLinked';

/**
 * What keeps Node from loading these modules; null: nothing. A module that imports all of them, and after them a name that does
 * not exist: all files are found, read and linked, as before any import, and none of them is evaluated.
 */
async function linkError(files: readonly string[]): Promise<unknown> {
  const imports = files.map(file => `import ${JSON.stringify(pathToFileURL(file).href)};`);
  const code = [...imports, `import { ${LINKED} } from 'data:text/javascript,';`].join('\n');
  try {
    await import(`data:text/javascript,${encodeURIComponent(code)}`);
    return null;
  } catch (error) {
    return error instanceof SyntaxError && error.message.includes(LINKED) ? null : error;
  }
}
