import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { isOutlastError } from '../errors/error.ts';
import { maskUrl } from '../config/config.ts';
import type { AddCommand } from './command.ts';
import { addDeadLetters } from './commands/dead-letters.ts';
import { addDev } from './commands/dev.ts';
import { addMigrate } from './commands/migrate.ts';
import { addRelay } from './commands/relay.ts';
import { addResult } from './commands/result.ts';
import { addResurrector } from './commands/resurrector.ts';
import { addSend } from './commands/send.ts';
import { addStats } from './commands/stats.ts';
import { addWorker } from './commands/worker.ts';
import { EXIT, EXIT_HELP, exitCodeOf } from './exit-codes.ts';
import { createOutput, type Output } from './output.ts';

const COMMANDS: readonly AddCommand[] = [
  addMigrate,
  addDev,
  addRelay,
  addWorker,
  addResurrector,
  addSend,
  addResult,
  addStats,
  addDeadLetters,
];

/** Runs the command line; the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const output = createOutput(
    text => void process.stdout.write(text),
    text => void process.stderr.write(text),
  );
  let code: number = EXIT.done;
  const program = createProgram(output, finished => {
    code = finished;
  });
  try {
    if (argv.length === 0) {
      output.note(program.helpInformation());
      return EXIT.usage;
    }
    await program.parseAsync([...argv], { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    report(error, argv.includes('--json'), output);
    return exitCodeOf(error);
  }
}

function createProgram(output: Output, finish: (code: number) => void): Command {
  const manifest = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { readonly version: string };
  const program = new Command('outlast')
    .description('Background tasks that outlast crashes.')
    .version(manifest.version)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ writeErr: text => output.note(text.trimEnd()) })
    .addHelpText('after', EXIT_HELP);
  for (const add of COMMANDS) add(program, output, finish);
  for (const command of allCommands(program)) addCommonOptions(command.exitOverride());
  return program;
}

function allCommands(program: Command): readonly Command[] {
  return program.commands.flatMap(command =>
    command.commands.length > 0 ? allCommands(command) : [command],
  );
}

function addCommonOptions(command: Command): void {
  command
    .option('--config <file>', 'the config file (default: found upward from here)')
    .option(
      '--loader <kind>',
      'how modules are loaded: native or jiti (default: as the config file needs)',
    )
    .option('--env-file <file>', 'read environment variables from a file')
    .option('--json', 'machine-readable output')
    .option('--verbose', 'log more');
}

/** Errors say what to do; a stack is for bugs only. */
function report(error: unknown, json: boolean, output: Output): void {
  const { code, message, hint } = isOutlastError(error)
    ? error
    : {
        code: 'ERR_UNEXPECTED',
        message: error instanceof Error ? (error.stack ?? error.message) : String(error),
        hint: '',
      };
  const masked = message.replaceAll(/[a-z]+:\/\/\S+/g, maskUrl);
  if (json)
    output.note(
      JSON.stringify({ error: { code, message: masked, hint, docs: 'docs/reference/errors.md' } }),
    );
  else output.note(`error: ${masked} (${code})${hint === '' ? '' : `\n       ${hint}`}`);
}
