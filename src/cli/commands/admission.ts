import type { KeyFigures } from '../../admission/admission-store.ts';
import { readContext, withAdmin, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

/** `outlast admission`: what is used, reserved and waiting under every key, and whether the store itself is full. */
export const addAdmission: AddCommand = (program, output) => {
  program
    .command('admission')
    .description('show limits: what is left of rates, places held, tasks waiting, refusals')
    .action(async (options: CommonOptions) => {
      const command = await readContext(options);
      const { closed, keys } = await withAdmin(command, async admin => ({
        closed: await admin.admissionClosed(),
        keys: await admin.admission(),
      }));
      if (options.json) return output.json({ closed, keys });
      if (closed !== null)
        output.line(`closed: ${closed.why}, so no new task is pushed or published`);
      if (keys.length === 0) return output.note('no limit was asked for yet');
      output.table(keys.map(shown), COLUMNS);
    });
};

const COLUMNS = ['key', 'rate', 'available', 'held', 'waiting', 'rejected'];

/** `100/60 s burst 20`, and reservations as `3 of 10`. */
function shown({ rate, available, concurrency, held, ...rest }: KeyFigures): object {
  return {
    ...rest,
    rate: rate === null ? '-' : `${rate.limit} in ${rate.perMs / 1_000} s, burst ${rate.burst}`,
    available: available ?? '-',
    held: concurrency === null ? '-' : `${held} of ${concurrency}`,
  };
}
