import { Option } from 'commander';
import { shutdownSignal } from '../../process/shutdown-signal.ts';
import {
  addOutboxFlag,
  addSectionFlags,
  readContext,
  withContext,
  type CommonOptions,
} from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** These need a relay that keeps running. */
const PROBES = ['livenessFile', 'healthPort', 'healthHost'];

const NOT_NEEDED =
  'no relay is needed: without a broker tasks are sent to where workers look, and workers move the few that wait in the outbox: those with an ordering key or under a rate, and those of older versions';

/** `outlast relay`: moves committed tasks on to the broker. */
export const addRelay: AddCommand = (program, output) => {
  const command = program
    .command('relay')
    .description('move committed tasks from the outbox to the broker')
    .addOption(new Option('--once', 'move one batch, then end').conflicts(['drain', ...PROBES]))
    .addOption(new Option('--drain', 'move all that is due, then end').conflicts(PROBES));
  addOutboxFlag(addSectionFlags(command, 'relay')).action(
    async (options: CommonOptions & { readonly once?: boolean; readonly drain?: boolean }) => {
      const { context } = await readContext(options, { section: 'relay' });
      const { config, log } = context;
      const signal = shutdownSignal(() => log.info({}, 'stopping; a second signal exits at once'));
      const { movesItself } = await import('../../process/own-relay.ts');
      const { makeRelay } = await import('../../process/relay-service.ts');
      const { enterTier } = await import('../../context/tier-memory.ts');
      await withContext(context, async () => {
        await enterTier(context);
        if (movesItself(config) && context.outbox === null) log.info({}, NOT_NEEDED);
        const relay = makeRelay(context);
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
