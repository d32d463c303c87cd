import type { Command } from 'commander';
import { flagOf, textUnit } from '../config/option-table.ts';
import type { OptionRow } from '../options/option.ts';
import { SEND_TABLE } from '../options/send-table.ts';
import type { SendOptions } from '../task/define-task.ts';
import type { Duration } from '../task/duration.ts';

const FLAGS = Object.entries(SEND_TABLE).filter(([, row]) => row.flag !== undefined);

/** Adds a flag for every option of a send that has one. */
export function addSendFlags(command: Command): Command {
  for (const [key, row] of FLAGS)
    command.option(`${flagOf(key)} <${row.flag}>`, `${row.sentence}${textUnit(row)}`);
  return command;
}

/** Picks the options of a send out of all options of a command. */
export function readSendFlags(options: object): SendOptions {
  const given = options as Readonly<Record<string, string | undefined>>;
  const read = FLAGS.flatMap(([key, row]) => {
    const text = given[key];
    return text === undefined ? [] : [[key, valueOf(row, text)] as const];
  });
  return Object.fromEntries(read);
}

function valueOf({ kind }: OptionRow, text: string): unknown {
  switch (kind) {
    case 'instant':
      return new Date(text);
    case 'duration':
      return lengthOf(text);
    case 'moment':
      return /^\d{4}-/.test(text) ? new Date(text) : lengthOf(text);
    case 'integer':
      return Number(text);
    case 'boolean':
      return text === 'true';
    default:
      return text;
  }
}

/** A bare number is seconds; a unit is accepted as well. */
const lengthOf = (text: string): Duration =>
  (/^[\d.]+$/.test(text) ? `${text}s` : text) as Duration;
