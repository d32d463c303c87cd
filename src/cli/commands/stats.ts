import type { TaskTotals } from '../../ledger/tallies.ts';
import { leftBehind } from '../../context/tier-memory.ts';
import { type CommonOptions, addOutboxFlag, readContext, withAdmin } from '../context.ts';
import { type AddCommand, readWhole } from '../flags.ts';

/** Of the totals: a line has no room for more. */
const TOLD = ['done', 'failed', 'retried', 'dead', 'resurrected', 'cancelled', 'expired'] as const;
const zeros = Object.fromEntries(TOLD.map(figure => [figure, 0]));

const ended = ({ counts: { done = 0, dead = 0 } }: TaskTotals): number => done + dead;

/** `outlast stats`: counts of tasks by state. */
export const addStats: AddCommand = (program, output) => {
  addOutboxFlag(program.command('stats'))
    .description('show how many tasks wait, run, are done and are dead')
    .option('--top <n>', 'how many of the most failing tasks to show', '5')
    .action(async (options: CommonOptions & { readonly top: string }) => {
      const top = readWhole(options.top, '--top', 0, 9_999);
      const command = await readContext(options);
      const [stats, left] = await withAdmin(command, async (admin, { tiers }) => [
        await admin.stats({ top }),
        await leftBehind(tiers, command.context.config),
      ]);
      if (options.json) return output.json({ ...stats, leftBehind: left });
      for (const sentence of left) output.note(`left behind: ${sentence}`);
      const { outbox, tasks } = stats;
      output.line(
        `outbox   pending ${outbox.pending}  claimed ${outbox.claimed}  oldest ${stats.oldestPendingSeconds === null ? '-' : `${stats.oldestPendingSeconds.toFixed(1)} s`}`,
      );
      output.line(
        `backlog  due ${stats.queueDepth}  scheduled ${stats.scheduled}  backoff ${stats.backoff}  deferred ${stats.deferred}`,
      );
      if (outbox.unsupported > 0)
        output.line(
          `         ${outbox.unsupported} in a format of a newer version: upgrade a relay`,
        );
      output.line(
        `tasks    ${Object.entries(tasks)
          .map(([state, count]) => `${state} ${count}`)
          .join('  ')}`,
      );
      output.line(
        `dead     ${stats.dlqCount} (outbox ${stats.dlq.outbox}, worker ${stats.dlq.worker})   workers ${stats.workers}`,
      );
      const { open, oldestSeconds, oldest } = stats.chords;
      if (open > 0) output.line(`chords   open ${open}  oldest ${oldestSeconds?.toFixed(1)} s`);
      if (oldest.length > 0)
        output.table(oldest, ['groupId', 'body', 'parts', 'size', 'failed', 'since']);
      if (stats.queues.length > 0)
        output.table(stats.queues, [
          'queue',
          'pending',
          'waiting',
          'running',
          'isPaused',
          'consumers',
        ]);
      const busiest = stats.totals.toSorted((a, b) => ended(b) - ended(a)).slice(0, top);
      if (busiest.length > 0)
        output.table(
          busiest.map(({ name, queue, counts }) => ({ name, queue, ...zeros, ...counts })),
          ['name', 'queue', ...TOLD],
        );
      if (stats.topFailing.length > 0) output.table(stats.topFailing, ['name', 'failures']);
    });
};
