import { loadDialect } from '../../context/openers.ts';
import { uninstall } from '../../context/uninstall.ts';
import { addOutboxFlag, readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast uninstall`: drops what `outlast migrate` made. */
export const addUninstall: AddCommand = (program, output) => {
  addOutboxFlag(program.command('uninstall'))
    .description("drop Outlast's tables; refused while tasks or processes are left")
    .option('--print', 'print the SQL instead of running it')
    .action(async (options: CommonOptions & { readonly print?: boolean }) => {
      const { context } = await readContext(options);
      const target = context.outbox?.target ?? context.config.database;
      if (options.print)
        return output.lines((await loadDialect(target)).printUninstall().split('\n'));
      const report = await uninstall(context, { onProgress: line => output.note(line) });
      if (options.json) return output.json(report);
      output.line(
        report.dropped.length === 0
          ? "nothing to do: the database has none of Outlast's tables here"
          : `dropped ${report.dropped.length} tables`,
      );
    });
};
