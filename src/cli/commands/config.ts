import { readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';
import { JsonText } from '../output.ts';

/** `outlast config`: the settings that a process would use here. */
export const addConfig: AddCommand = (program, output) => {
  const parent = program.command('config').description('what Outlast runs on here');
  parent
    .command('show')
    .description('show every setting and where it comes from; secrets are masked')
    .action(async (options: CommonOptions) => {
      const { loaded, context } = await readContext(options);
      const { config } = context;
      const settings = Object.entries(config.settings).map(([key, { value, source }]) => ({
        key,
        value: JSON.stringify(value),
        source,
      }));
      if (options.json) {
        // Values belong to the user: their keys must not be renamed.
        const items = settings.map(item => ({ ...item, value: new JsonText(item.value) }));
        return output.json({ file: loaded.file, settings: items, warnings: config.warnings });
      }
      output.note(loaded.file === null ? 'no config file' : `config file ${loaded.file}`);
      output.table(settings, ['key', 'value', 'source']);
    });
};
