import { migrate, openDatabase, printMigrations } from '../../wiring/stores.ts';
import { addOutboxFlag, readContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast migrate`: makes or updates the tables. */
export const addMigrate: AddCommand = (program, output) => {
  addOutboxFlag(program.command('migrate'))
    .description("make or update Outlast's tables in the database")
    .option('--print', 'print the SQL instead of running it')
    .action(async (options: CommonOptions & { readonly print?: boolean }) => {
      if (options.print) return output.line(printMigrations());
      const { config, outboxTarget } = await readContext(options, output);
      const db = await openDatabase(outboxTarget ?? config.database);
      try {
        const report = await migrate(db);
        if (options.json) return output.json(report);
        output.line(
          report.applied.length === 0
            ? `nothing to do: schema version ${report.version}`
            : `applied ${report.applied.join(', ')}: schema version ${report.version}`,
        );
      } finally {
        await db.close();
      }
    });
};
