import { outlastError } from '../../errors/error.ts';

export type PGliteModule = typeof import('@electric-sql/pglite');

/** The driver is an optional peer: it is loaded only with the embedded database. */
export async function loadPGlite(): Promise<PGliteModule> {
  try {
    return await import('@electric-sql/pglite');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = 'npm i @electric-sql/pglite';
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'The embedded database needs the package @electric-sql/pglite.',
      hint: `Run: ${install}`,
      fields: { install },
      cause: error,
    });
  }
}
