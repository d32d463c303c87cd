import { Option } from 'commander';
import { Relay } from '../../relay/relay.ts';
import { shutdownSignal } from '../../wiring/shutdown-signal.ts';
import { addSectionFlags, readContext, withStores, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast relay`: moves committed tasks on. */
export const addRelay: AddCommand = (program, output) => {
  const command = program
    .command('relay')
    .description('move committed tasks from the outbox to the broker')
    .addOption(new Option('--once', 'move one batch, then end').conflicts('drain'))
    .addOption(new Option('--drain', 'move all that is due, then end').conflicts('once'));
  addSectionFlags(command, 'relay').action(
    async (options: CommonOptions & { readonly once?: boolean; readonly drain?: boolean }) => {
      const context = await readContext(options, output, 'relay');
      const { runtime, config, log } = context;
      const signal = shutdownSignal(() => log.info({}, 'stopping; a second signal exits at once'));
      await withStores(context, { createIfMissing: false }, async ({ outbox, broker }) => {
        const relay = new Relay({ outbox, broker, runtime, settings: config.relay });
        if (!options.once && !options.drain) {
          log.info({ database: context.config.settings['database']?.value }, 'relay started');
          await relay.run(signal);
          return log.info({}, 'relay stopped');
        }
        const moved = options.once ? await relay.pass(signal) : await relay.drain(signal);
        if (options.json) output.json({ moved });
        else output.line(`moved ${moved}`);
      });
    },
  );
};
