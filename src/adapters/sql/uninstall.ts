import { outlastError } from '../../errors/error.ts';

/** What is still there, or still at work: figures by name. */
export interface Leftovers {
  readonly outboxRows: number;
  /** Waiting or running. */
  readonly tasks: number;
  readonly deadLetters: number;
  readonly followUps: number;
  /** Put by programs: they are nowhere else. */
  readonly schedules: number;
  readonly workers: number;
  readonly relays: number;
}

export const NOTHING_LEFT: Leftovers = {
  outboxRows: 0,
  tasks: 0,
  deadLetters: 0,
  followUps: 0,
  schedules: 0,
  workers: 0,
  relays: 0,
};

const WORDS: Readonly<Record<keyof Leftovers, string>> = {
  outboxRows: 'rows of the outbox',
  tasks: 'tasks that wait or run',
  deadLetters: 'dead letters',
  followUps: 'follow-ups to be sent',
  schedules: 'schedules that programs have put',
  workers: 'workers',
  relays: 'relays',
};

/** Dropping a table must lose no task, and no process may need it. */
export function refuseLeftovers(left: Leftovers): void {
  const found = Object.entries(left).filter(([, count]) => count > 0);
  if (found.length === 0) return;
  const list = found.map(([key, count]) => `${count} ${WORDS[key as keyof Leftovers]}`).join(', ');
  throw outlastError('ERR_TASKS_LEFT', {
    message: `nothing was dropped, because there are still ${list}`,
    hint: 'Stop the senders, let workers finish, purge dead letters (outlast dead-letters purge), remove schedules (outlast schedule remove), then stop workers and relays; a process that was killed counts until its lease ends.',
    fields: { left },
  });
}

const CREATE = /^create (?:or replace )?(table|function) (outlast_\w+(?:\([^)]*\))?)/;

/** What migrations make, by their text: tables, and functions with their parameters. A later one may make a function again. */
export function madeBy(
  migrations: readonly { readonly statements: readonly string[] }[],
): Readonly<Record<'table' | 'function', readonly string[]>> {
  const made = { table: new Set<string>(), function: new Set<string>() };
  for (const { statements } of migrations)
    for (const statement of statements) {
      const [, kind, name = ''] = CREATE.exec(statement) ?? [];
      if (kind !== undefined) made[kind as keyof typeof made].add(name.replaceAll(/\s+/g, ' '));
    }
  return { table: [...made.table], function: [...made.function] };
}
