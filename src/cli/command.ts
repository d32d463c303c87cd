import type { Command } from 'commander';
import type { Output } from './output.ts';

/** Adds one verb to the program. `finish` sets an exit code other than 0. */
export type AddCommand = (program: Command, output: Output, finish: (code: number) => void) => void;
