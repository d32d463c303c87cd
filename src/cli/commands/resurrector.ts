import { shutdownSignal } from '../../wiring/shutdown-signal.ts';
import { addSectionFlags, readContext, withStores, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast resurrector`: brings back what died. */
export const addResurrector: AddCommand = (program, output) => {
  const command = program
    .command('resurrector')
    .description('bring back what dead workers were running');
  addSectionFlags(command, 'resurrector').action(async (options: CommonOptions) => {
    const context = await readContext(options, output, 'resurrector');
    const { runtime, config, log } = context;
    const signal = shutdownSignal(() => log.info({}, 'stopping; a second signal exits at once'));
    const { makeResurrector } = await import('../../wiring/services.ts');
    await withStores(context, { embedded: 'join', createIfMissing: false }, async stores => {
      log.info({}, 'resurrector started');
      await makeResurrector({ stores, config, runtime }).run(signal);
      log.info({}, 'resurrector stopped');
    });
  });
};
