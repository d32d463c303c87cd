import { createSchedules, type ScheduleDetails } from '../../app/create-schedules.ts';
import { readContext, withContext, type CommonOptions } from '../context.ts';
import type { AddCommand } from '../flags.ts';

const VERBS = {
  pause: 'it fires no more, whatever restarts; slots that pass are not made up for',
  resume: 'it goes on with its next slot',
  remove: 'delete it; one of a configuration is removed there',
} as const;

/** `outlast schedule`: what is sent by the clock. */
export const addSchedule: AddCommand = (program, output) => {
  const parent = program
    .command('schedule')
    .description('schedules: list, pause, resume, run, remove');
  parent
    .command('list')
    .description('list every schedule: its next slot, what it sent, what is wrong with it')
    .action(async (options: CommonOptions) => {
      const { context } = await readContext(options);
      const items = await withContext(context, () => createSchedules(context).list());
      if (options.json) return output.json({ items: items.map(shown) });
      if (items.length === 0) return output.note('there is no schedule');
      const columns = ['name', 'task', 'when', 'state', 'nextSlot', 'fired', 'missed', 'error'];
      output.table(items.map(shown), columns);
    });
  for (const [verb, description] of Object.entries(VERBS) as [keyof typeof VERBS, string][]) {
    parent
      .command(`${verb} <name>`)
      .description(description)
      .action(async (name: string, options: CommonOptions) => {
        const { context } = await readContext(options);
        const hasChanged = await withContext(context, () => createSchedules(context)[verb](name));
        if (options.json) return output.json({ schedule: name, verb, hasChanged });
        output.line(hasChanged ? `${name}: ${verb} done` : `${name}: nothing to ${verb}`);
      });
  }
  parent
    .command('run <name>')
    .description('send its task now, beside its slots; prints the id')
    .action(async (name: string, options: CommonOptions) => {
      const { context } = await readContext(options);
      const id = await withContext(context, () => createSchedules(context).runNow(name));
      if (options.json) return output.json({ schedule: name, id });
      output.line(id);
    });
};

const shown = (details: ScheduleDetails): Readonly<Record<string, unknown>> => ({
  ...details,
  nextSlot: details.nextSlot?.toISOString() ?? null,
  lastSlot: details.lastSlot?.toISOString() ?? null,
  error: details.error ?? (details.isDisputed ? 'two running configurations differ' : null),
});
