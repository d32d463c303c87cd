import { migrateTarget, printMigrationsOf } from '../../wiring/stores.ts';
import { dialectOf } from '../../wiring/writer-of.ts';
import { addOutboxFlag, readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast migrate`: makes or updates the tables. */
export const addMigrate: AddCommand = (program, output) => {
  addOutboxFlag(program.command('migrate'))
    .description("make or update Outlast's tables in the database")
    .option('--print', 'print the SQL instead of running it')
    .action(async (options: CommonOptions & { readonly print?: boolean }) => {
      const { config, outboxTarget } = await readContext(options, output);
      const target = outboxTarget ?? config.database;
      if (options.print) return output.line(await printMigrationsOf(dialectOf(target)));
      const report = await migrateTarget(target);
      if (options.json) return output.json(report);
      output.line(
        report.applied.length === 0
          ? `nothing to do: schema version ${report.version}`
          : `applied ${report.applied.join(', ')}: schema version ${report.version}`,
      );
    });
};
