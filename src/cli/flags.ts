import { outlastError } from '../errors/error.ts';
import { type Duration, durationMs } from '../task/duration.ts';
import type { Command } from 'commander';
import type { Output } from './output.ts';
import { createLoader, loadTaskModules } from '../config/load-config.ts';
import type { Task } from '../task/define-task.ts';
import type { Handler } from '../worker/handler.ts';
import type { CommandContext } from './context.ts';

/** A duration as people type it: a bare number is seconds. */
export function readDuration(text: string, flag: string): Duration {
  const duration = (/^(\d+\.?\d*|\.\d+)$/.test(text) ? `${Number(text)}s` : text) as Duration;
  durationMs(duration, flag);
  return duration;
}

export function readWhole(text: string, flag: string, least: number, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count >= least && count <= most) return count;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `${flag} is ${JSON.stringify(text)}`,
    hint: `Give a whole number from ${least} to ${most}.`,
    fields: { option: flag },
  });
}

/** Flags that are valid alone and invalid together, or of which one is missing. */
export function flagsConflict(flags: readonly string[], message: string, hint: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', { message, hint, fields: { options: flags } });
}

/** Adds one verb to the program. `finish` sets an exit code other than 0. */
export type AddCommand = (program: Command, output: Output, finish: (code: number) => void) => void;

/** The contract of a task whose handler the configuration names. */
export async function findContract(
  name: string,
  { context, loaded }: CommandContext,
): Promise<Task | undefined> {
  const { tasks } = context.config;
  if (tasks.length === 0) return undefined;
  const handlers = await loadTaskModules(
    tasks,
    loaded.file ?? loaded.folder,
    createLoader(loaded.loader),
  );
  return handlers
    .map(({ handler }) => (handler as Handler).task)
    .find(known => known.name === name);
}
