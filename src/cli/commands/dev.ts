import { DEFAULT_PORT } from '../../dev/default-port.ts';
import { shutdownSignal } from '../../process/shutdown-signal.ts';
import type { AddCommand } from '../flags.ts';
import { logOptions, readContext, type CommonOptions } from '../context.ts';

interface Options extends CommonOptions {
  readonly port?: string;
}

/** `outlast dev`: everything in one command. */
export const addDev: AddCommand = (program, output) => {
  program
    .command('dev')
    .description('database, relay, workers, recovery and a page, in one command')
    .option(
      '--port <n>',
      `where the page is served, or on the next free port (default: ${DEFAULT_PORT})`,
    )
    .action(async (options: Options) => {
      const command = await readContext(options, { embedded: 'own', migrates: true });
      const signal = shutdownSignal(() =>
        output.note('draining; press Ctrl-C again to exit at once'),
      );
      const childLog = logOptions(options);
      const port = options.port === undefined ? DEFAULT_PORT : readPort(options.port);
      const { startDevOn } = await import('../../dev/start-dev.ts');
      const dev = await startDevOn(command, { port, signal, childLog });
      const { address } = dev;
      // Ctrl-C came while the database was being opened: there is no page to open any more.
      if (signal.aborted) return await dev.finished;
      if (options.json) output.json({ address, pid: process.pid });
      else output.line(`Outlast dev is running at ${address}`);
      await dev.finished;
    });
};

/** Text that is not a number becomes an invalid port, and is refused as such. */
const readPort = (text: string): number => (/^\d{1,5}$/.test(text) ? Number(text) : Number.NaN);
