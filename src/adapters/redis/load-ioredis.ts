import { outlastError } from '../../errors/error.ts';

export type IoredisModule = Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>;

/** The driver is an optional peer dependency: it is loaded only when Redis is used. */
export async function loadIoredis(): Promise<IoredisModule> {
  try {
    return await import('ioredis');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = 'npm i ioredis';
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'the Redis driver `ioredis` is not installed',
      hint: `Run: ${install}`,
      fields: { install },
      cause: error,
    });
  }
}
