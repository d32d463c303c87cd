import { WINDOWS, type BurnStatus, type BurnWindow } from '../../ledger/burn-rate.ts';
import { readContext, withAdmin, type CommonOptions } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import type { AddCommand } from '../flags.ts';

interface Options extends CommonOptions {
  readonly target?: string;
  readonly strict?: boolean;
}

const WINDOW_NAMES = Object.keys(WINDOWS) as readonly BurnWindow[];

/** `outlast slo`: how fast each objective uses up its budget. */
export const addSlo: AddCommand = (program, output, finish) => {
  program
    .command('slo')
    .description('show how fast tasks use up what their objectives allow: exit code 6 to be paged')
    .option('--target <share>', 'look at every success as if this were its target')
    .option('--strict', 'also what is worth a ticket is exit code 6')
    .action(async (options: Options) => {
      const command = await readContext(options);
      const target = options.target === undefined ? {} : { target: Number(options.target) };
      const report = await withAdmin(command, admin => admin.slo(target));
      if (options.json) output.json(report);
      else if (report.objectives.length === 0)
        output.note('no task that a worker has a handler for has an slo');
      else output.table(report.objectives.map(shown), COLUMNS);
      const bad = options.strict ? ['page', 'ticket'] : ['page'];
      const isBurning = report.objectives.some(({ status }) => bad.includes(status));
      finish(isBurning ? EXIT.unhealthy : EXIT.done);
    });
};

const COLUMNS = ['task', 'objective', 'target', ...WINDOW_NAMES, 'status'];

/** `latency 5 s`, and the burn rate of each window. */
function shown({ objective, withinMs, windows, ...rest }: BurnStatus): object {
  const rates = WINDOW_NAMES.map(window => {
    const { burnRate } = windows[window];
    return [window, burnRate === null ? '-' : burnRate.toFixed(2)];
  });
  const named = withinMs === null ? objective : `${objective} ${withinMs / 1_000} s`;
  return { ...rest, objective: named, ...(Object.fromEntries(rates) as object) };
}
