import { Option } from 'commander';
import { shutdownSignal } from '../../wiring/shutdown-signal.ts';
import {
  addOutboxFlag,
  addSectionFlags,
  readContext,
  withStores,
  type CommonOptions,
} from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast relay`: moves committed tasks on. */
/** They are for a relay that stays. */
const PROBES = ['livenessFile', 'healthPort'];

export const addRelay: AddCommand = (program, output) => {
  const command = program
    .command('relay')
    .description('move committed tasks from the outbox to the broker')
    .addOption(new Option('--once', 'move one batch, then end').conflicts(['drain', ...PROBES]))
    .addOption(new Option('--drain', 'move all that is due, then end').conflicts(PROBES));
  addOutboxFlag(addSectionFlags(command, 'relay')).action(
    async (options: CommonOptions & { readonly once?: boolean; readonly drain?: boolean }) => {
      const context = await readContext(options, output, 'relay');
      const { runtime, config, log, outboxTarget } = context;
      const signal = shutdownSignal(() => log.info({}, 'stopping; a second signal exits at once'));
      // The broker is the default database, whatever outbox is relayed into it.
      const main = { ...context, outboxTarget: null };
      const { makeRelay } = await import('../../wiring/services.ts');
      await withStores(main, { createIfMissing: false }, async stores => {
        const relay = makeRelay({
          stores,
          outboxTarget,
          runtime,
          config,
        });
        if (!options.once && !options.drain) {
          const database = config.settings['database']?.value;
          log.info({ database, outbox: options.outbox ?? 'default' }, 'relay started');
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
