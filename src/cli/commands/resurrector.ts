import { shutdownSignal } from '../../process/shutdown-signal.ts';
import { addSectionFlags, readContext, withContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast resurrector`: brings back the tasks of dead workers. */
export const addResurrector: AddCommand = program => {
  const command = program
    .command('resurrector')
    .description('bring back what dead workers were running');
  addSectionFlags(command, 'resurrector').action(async (options: CommonOptions) => {
    const { context } = await readContext(options, { section: 'resurrector', embedded: 'join' });
    const { log } = context;
    const signal = shutdownSignal(() => log.info({}, 'stopping; a second signal exits at once'));
    const { makeResurrector } = await import('../../process/resurrector-service.ts');
    const { enterTier } = await import('../../context/tier-memory.ts');
    await withContext(context, async () => {
      await enterTier(context);
      log.info({}, 'resurrector started');
      await makeResurrector(context).run(signal);
      log.info({}, 'resurrector stopped');
    });
  });
};
