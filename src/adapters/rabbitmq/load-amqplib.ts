import { outlastError } from '../../errors/error.ts';

export type Amqplib = Pick<typeof import('amqplib'), 'connect'>;

/** The driver is an optional peer dependency: it is loaded only when RabbitMQ is used. */
export async function loadAmqplib(): Promise<Amqplib> {
  try {
    return (await import('amqplib')).default;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = 'npm i amqplib';
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'RabbitMQ needs the package amqplib.',
      hint: `Run: ${install}`,
      fields: { install },
      cause: error,
    });
  }
}
