import { Command, CommanderError, Option } from 'commander';
import type { InputIssue } from '../errors/codes.ts';
import { isDenied } from '../errors/denied.ts';
import { isOutlastError } from '../errors/error.ts';
import { maskSecrets } from '../errors/mask-secrets.ts';
import { packageVersion } from '../process/worker-spec.ts';
import type { AddCommand } from './flags.ts';
import { EXIT, EXIT_HELP, exitCodeOf } from './exit-codes.ts';
import { createOutput, toJson, type Output } from './output.ts';

/** In the order of the help. What a verb needs is loaded when it is asked for. */
const COMMANDS: ReadonlyMap<string, () => Promise<AddCommand>> = new Map([
  ['init', async () => (await import('./commands/init.ts')).addInit],
  ['migrate', async () => (await import('./commands/migrate.ts')).addMigrate],
  ['uninstall', async () => (await import('./commands/uninstall.ts')).addUninstall],
  ['dev', async () => (await import('./commands/dev.ts')).addDev],
  ['relay', async () => (await import('./commands/relay.ts')).addRelay],
  ['worker', async () => (await import('./commands/worker.ts')).addWorker],
  ['resurrector', async () => (await import('./commands/resurrector.ts')).addResurrector],
  ['send', async () => (await import('./commands/send.ts')).addSend],
  ['result', async () => (await import('./commands/result.ts')).addResult],
  ['stats', async () => (await import('./commands/stats.ts')).addStats],
  ['slo', async () => (await import('./commands/slo.ts')).addSlo],
  ['outbox', async () => (await import('./commands/outbox.ts')).addOutbox],
  ['dead-letters', async () => (await import('./commands/dead-letters.ts')).addDeadLetters],
  ['queues', async () => (await import('./commands/queues.ts')).addQueues],
  ['tasks', async () => (await import('./commands/tasks.ts')).addTasks],
  ['workers', async () => (await import('./commands/workers.ts')).addWorkers],
  ['schedule', async () => (await import('./commands/schedule.ts')).addSchedule],
  ['idempotency', async () => (await import('./commands/idempotency.ts')).addIdempotency],
  ['admission', async () => (await import('./commands/admission.ts')).addAdmission],
  ['move', async () => (await import('./commands/move.ts')).addMove],
  ['doctor', async () => (await import('./commands/doctor.ts')).addDoctor],
  ['config', async () => (await import('./commands/config.ts')).addConfig],
]);

/** Modules of the user may hold connections open; a command that has ended waits for them no longer than this. */
const LINGER_MS = 500;

/** Runs the command line; returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  surviveClosedPipes();
  const code = await run(argv);
  setTimeout(() => process.exit(code), LINGER_MS).unref();
  return code;
}

async function run(argv: readonly string[]): Promise<number> {
  const output = createOutput(
    text => void process.stdout.write(text),
    text => void process.stderr.write(text),
  );
  const isJson = argv.includes('--json');
  let code: number = EXIT.done;
  const finish = (finished: number): void => {
    code = finished;
  };
  const program = createProgram(output, isJson);
  try {
    for (const load of commandsFor(argv)) (await load())(program, output, finish);
    for (const command of allCommands(program)) addCommonOptions(command.exitOverride());
    if (argv.length === 0) {
      output.notes(program.helpInformation().split('\n'));
      return EXIT.usage;
    }
    await program.parseAsync([...argv], { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    report(problemOf(error), isJson, output);
    return exitCodeOf(error);
  }
}

/** `outlast worker 2>&1 | head`: the reader closes the pipe, and that ends neither a worker nor a command. */
function surviveClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

function createProgram(output: Output, isJson: boolean): Command {
  return new Command('outlast')
    .description('Background tasks that outlast crashes.')
    .version(packageVersion())
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeErr: text => output.notes(text.trimEnd().split('\n')),
      outputError: (text, write) =>
        isJson ? report(usageProblem(text), isJson, output) : write(text),
    })
    .addHelpText('after', EXIT_HELP);
}

/** The verb that is named; all, for help and for a name that is not known. */
function commandsFor([verb = '']: readonly string[]): readonly (() => Promise<AddCommand>)[] {
  if (verb === '--version' || verb === '-V') return [];
  const named = COMMANDS.get(verb);
  return named === undefined ? [...COMMANDS.values()] : [named];
}

function allCommands(program: Command): readonly Command[] {
  return program.commands.flatMap(command =>
    command.commands.length > 0 ? allCommands(command) : [command],
  );
}

function addCommonOptions(command: Command): void {
  command
    .option(
      '--config <file>',
      'the config file (default: found upward from here, within the project)',
    )
    .addOption(
      new Option(
        '--loader <kind>',
        'how modules are loaded (default: as the config file needs)',
      ).choices(['native', 'jiti']),
    )
    .option('--env-file <file>', 'read environment variables from a file')
    .option('--json', 'machine-readable output')
    .addOption(new Option('--verbose', 'log more').conflicts('quiet'))
    .option('--quiet', 'log warnings and errors only');
}

/** What went wrong, for people and machines. */
interface Problem {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly issues?: readonly InputIssue[];
  /** For a module that does not load: the position in the user's files. */
  readonly traceback?: string;
}

/** Errors have hints; a stack is for bugs only. */
function problemOf(error: unknown): Problem {
  if (isOutlastError(error)) {
    const { code, message, hint } = error;
    const issues = isOutlastError(error, 'ERR_INPUT_INVALID') ? error.issues : [];
    const isOfModule = isOutlastError(error, 'ERR_HANDLER_NOT_LOADABLE');
    const traceback = isOfModule ? (error.traceback ?? '') : '';
    return { code, message, hint, issues, traceback };
  }
  if (isDenied(error)) {
    const hint = 'Grant this user what the command needs, or run it as another.';
    return { code: 'ERR_PERMISSION', message: error.message, hint };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'ERR_UNEXPECTED', message, hint: '' };
}

/** Commander prints `error: what` and perhaps `(Did you mean that?)` below. */
function usageProblem(text: string): Problem {
  const [what = '', suggestion = ''] = text.trim().split('\n');
  const message = what.replace(/^error: /, '');
  return { code: 'ERR_USAGE', message, hint: suggestion.replace(/^\((.*)\)$/, '$1') };
}

function report(
  { code, message, hint, issues = [], traceback = '' }: Problem,
  json: boolean,
  output: Output,
): void {
  const masked = maskSecrets(message);
  if (json) {
    const more = {
      ...(issues.length > 0 ? { issues } : {}),
      ...(traceback === '' ? {} : { traceback: maskSecrets(traceback) }),
    };
    const docs = 'docs/reference/errors.md';
    return output.note(toJson({ error: { code, message: masked, hint, ...more, docs } }));
  }
  // Further lines are indented, so that none of them looks like a separate error.
  const [first = '', ...more] = `${masked} (${code})`.split('\n');
  const others = issues.slice(1).map(issue => `also at \`${issue.path}\`: ${issue.message}`);
  const frames = traceback === '' ? [] : maskSecrets(traceback).split('\n');
  const lines = [...more, ...frames, ...others, ...(hint === '' ? [] : [hint])];
  output.notes([`error: ${first}`, ...lines.map(line => `       ${line}`)]);
}
