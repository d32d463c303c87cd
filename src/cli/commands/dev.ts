import { startDev } from '../../dev/index.ts';
import { shutdownSignal } from '../../wiring/shutdown-signal.ts';
import { readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast dev`: everything in one command. */
export const addDev: AddCommand = (program, output) => {
  program
    .command('dev')
    .description('database, relay, worker, recovery and a page, in one command')
    .option('--port <n>', 'where the page is served; the next free one if it is taken', '4600')
    .action(async (options: CommonOptions & { readonly port: string }) => {
      const context = await readContext(options, output);
      const signal = shutdownSignal(() =>
        output.note('draining; press Ctrl-C again to exit at once'),
      );
      const dev = await startDev({ ...context, port: Number(options.port), signal });
      await dev.finished;
    });
};
