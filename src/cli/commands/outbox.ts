import type { Admin } from '../../admin/create-admin.ts';
import { type CommonOptions, addOutboxFlag, readContext, withAdmin } from '../context.ts';
import { type AddCommand, readWhole } from '../flags.ts';

interface ListOptions extends CommonOptions {
  readonly limit: string;
  readonly cursor?: string;
}

/** `outlast outbox`: committed tasks that no relay has moved on yet. */
export const addOutbox: AddCommand = (program, output) => {
  const parent = program.command('outbox').description('tasks that wait for a relay');
  addOutboxFlag(parent.command('list'))
    .description('list them, oldest first')
    .option('--limit <n>', 'how many', '50')
    .option('--cursor <text>', 'where the last page ended')
    .action(async (options: ListOptions) => {
      const { cursor } = options;
      const limit = readWhole(options.limit, '--limit', 1, 1_000);
      const page = { limit, ...(cursor === undefined ? {} : { cursor }) };
      const list = (admin: Admin) => admin.outbox.list(page);
      const { items, next } = await withAdmin(await readContext(options), list);
      if (options.json) return output.json({ items, next });
      if (items.length === 0) return output.note('the outbox is empty');
      output.table(
        items.map(item => ({
          ...item,
          state: item.isSupported ? item.state : 'unsupported',
          lastError: item.lastError?.slice(0, ERROR_WIDTH) ?? '',
        })),
        ['id', 'name', 'queue', 'state', 'retries', 'createdAt', 'availableAt', 'lastError'],
      );
      if (next !== null) output.note(`more: --cursor ${next}`);
    });
};

/** A list shows only the beginning of an error. */
const ERROR_WIDTH = 80;
