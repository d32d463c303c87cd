import { readContext, withAdmin, type CommonOptions } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast workers`: the live workers, and those that were asked to end. */
export const addWorkers: AddCommand = (program, output, finish) => {
  const parent = program.command('workers').description('worker processes: list, drain');
  parent
    .command('list')
    .description('list every worker process that lives')
    .action(async (options: CommonOptions) => {
      const items = await withAdmin(await readContext(options), admin => admin.workers.list());
      if (options.json) return output.json({ items });
      if (items.length === 0) return output.note('no worker lives');
      const shown = items.map(item => ({ ...item, queues: item.queues.join(',') }));
      output.table(shown, ['worker', 'host', 'pid', 'queues', 'running', 'isDraining']);
    });
  parent
    .command('drain <worker>')
    .description('ask one to end as SIGTERM would, within a second; it is not replaced')
    .action(async (worker: string, options: CommonOptions) => {
      const command = await readContext(options);
      const isAsked = await withAdmin(command, admin => admin.workers.drain(worker));
      if (!isAsked) finish(EXIT.notFound);
      if (options.json) return output.json({ worker, isAsked });
      if (isAsked) output.line(`${worker} is asked to end`);
      else output.note(`no worker ${worker} lives; npx outlast workers list`);
    });
};
