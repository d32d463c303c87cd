import type { Command } from 'commander';
import type { PurgeOptions } from '../../admin/dead-letters.ts';
import type { ResolvedConfig } from '../../config/config.ts';
import { addOutboxFlag, readContext, withAdmin, type CommonOptions } from '../context.ts';
import { flagsConflict, readDuration } from '../flags.ts';
import type { Output } from '../output.ts';

interface Options extends CommonOptions {
  readonly olderThanDead?: string;
  readonly olderThanCreated?: string;
  readonly taskName?: string;
  readonly dryRun?: boolean;
}

/** `dead-letters purge`: deletes old dead letters for good. */
export function addPurge(parent: Command, output: Output): void {
  addOutboxFlag(parent.command('purge'))
    .description(
      'delete old ones for good; without flags: as `retention` of the configuration says',
    )
    .option(
      '--older-than-dead <age>',
      'dead for longer than this: 7d, 12h; a bare number is seconds',
    )
    .option('--older-than-created <age>', 'sent longer ago than this')
    .option('--task-name <glob>', 'only those of these tasks, with * and ?')
    .option('--dry-run', 'count them, and delete none')
    .action(async (options: Options) => {
      const flags = readFlags(options);
      const command = await readContext(options);
      const dryRun = options.dryRun ?? false;
      const chosen = flags ?? fromRetention(command.context.config.retention);
      const purged = await withAdmin(command, admin =>
        admin.deadLetters.purge({ ...chosen, dryRun }),
      );
      if (options.json) return output.json({ ...purged, dryRun });
      output.line(`${purged.count} ${dryRun ? 'would be purged' : 'purged'}`);
      if (purged.tasks.length > 0) output.table(purged.tasks, ['name', 'count']);
    });
}

/** Null: no flag selects any. */
function readFlags(options: Options): PurgeOptions | null {
  const { olderThanDead: dead, olderThanCreated: created, taskName } = options;
  if (dead === undefined && created === undefined) {
    if (taskName !== undefined) throw noAge('--task-name alone would take letters of any age');
    return null;
  }
  return {
    olderThanDead: dead === undefined ? undefined : readDuration(dead, '--older-than-dead'),
    olderThanCreated:
      created === undefined ? undefined : readDuration(created, '--older-than-created'),
    taskName,
  };
}

function fromRetention({ deadLetters }: ResolvedConfig['retention']): PurgeOptions {
  if (deadLetters === null)
    throw noAge('nothing says how old a letter must be, and the configuration has no `retention`');
  const { olderThanDeadMs, olderThanCreatedMs, taskName } = deadLetters;
  return {
    olderThanDead: olderThanDeadMs === null ? undefined : `${olderThanDeadMs}ms`,
    olderThanCreated: olderThanCreatedMs === null ? undefined : `${olderThanCreatedMs}ms`,
    taskName: taskName ?? undefined,
  };
}

const noAge = (message: string): Error =>
  flagsConflict(
    ['--older-than-dead', '--older-than-created'],
    message,
    'Give an age, for example --older-than-dead 30d.',
  );
