import { addOutboxFlag, readContext, withAdmin, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast queues`: their tasks, their consumers, and whether they are paused. */
export const addQueues: AddCommand = (program, output) => {
  const parent = program.command('queues').description('queues: list, pause, resume');
  addOutboxFlag(parent.command('list'))
    .description(
      'list every queue in which something is, from which a worker takes, or that is paused',
    )
    .action(async (options: CommonOptions) => {
      const items = await withAdmin(await readContext(options), admin => admin.queues.list());
      if (options.json) return output.json({ items });
      if (items.length === 0) return output.note('no queue is in use');
      const columns = ['queue', 'pending', 'waiting', 'running', 'isPaused', 'consumers'];
      output.table(items, columns);
    });
  for (const verb of ['pause', 'resume'] as const) {
    parent
      .command(`${verb} <queue>`)
      .description(
        verb === 'pause'
          ? 'workers take nothing more from it, within a second and whatever restarts; what runs comes to its end'
          : 'workers take from it again',
      )
      .action(async (queue: string, options: CommonOptions) => {
        const command = await readContext(options);
        const hasChanged = await withAdmin(command, admin => admin.queues[verb](queue));
        const isPaused = verb === 'pause';
        if (options.json) return output.json({ queue, isPaused, hasChanged });
        const state = isPaused ? 'paused' : 'not paused';
        output.line(hasChanged ? `${queue} is ${state} now` : `${queue} was ${state} already`);
      });
  }
};
