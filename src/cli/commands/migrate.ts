import { refuseOwnMemory } from '../../config/memory-folder.ts';
import { loadDialect, migrateTarget } from '../../context/openers.ts';
import { addOutboxFlag, readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast migrate`: creates or updates the tables. */
export const addMigrate: AddCommand = (program, output) => {
  addOutboxFlag(program.command('migrate'))
    .description("make or update Outlast's tables in the database")
    .option('--print', 'print the SQL instead of running it')
    .action(async (options: CommonOptions & { readonly print?: boolean }) => {
      const { config, outbox } = (await readContext(options)).context;
      const target = outbox?.target ?? config.database;
      if (options.print)
        return output.lines((await loadDialect(target)).printMigrations().split('\n'));
      refuseOwnMemory(target);
      const { servedBy } = await import('../../context/tier-memory.ts');
      const onProgress = (line: string): void => output.note(line);
      const report = await migrateTarget(target, { onProgress }, servedBy(config));
      if (options.json) return output.json(report);
      output.line(
        report.applied.length === 0
          ? `nothing to do: schema version ${report.version}`
          : `applied ${report.applied.join(', ')}: schema version ${report.version}`,
      );
    });
};
