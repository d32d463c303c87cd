import { Option } from 'commander';
import type { Dialect } from '../../init/libraries.ts';
import type { InitReport } from '../../init/init-project.ts';
import type { AddCommand } from '../flags.ts';
import type { Output } from '../output.ts';
import type { CommonOptions } from '../context.ts';

interface Options extends CommonOptions {
  readonly library?: string;
  readonly dialect?: Dialect;
  readonly source?: string;
  readonly print?: boolean;
  readonly dryRun?: boolean;
}

/** `outlast init`: the files of a first task, for the libraries that the project has. */
export const addInit: AddCommand = (program, output) => {
  program
    .command('init')
    .description('write config, first task, handler and instance for the libraries of this project')
    .option(
      '--library <name>',
      'the library that tasks are sent with (default: as package.json says)',
    )
    .addOption(
      new Option('--dialect <name>', 'the database (default: as package.json says)').choices([
        'postgres',
        'mysql',
      ]),
    )
    .option('--source <folder>', 'where the code goes (default: src)')
    .option('--dry-run', 'say what would be written, and write nothing')
    .option('--print', 'print what would be written, and write nothing')
    .action(async (options: Options) => {
      const { initProject } = await import('../../init/init-project.ts');
      const { library, dialect, source } = options;
      const writes = !options.print && !options.dryRun;
      const report = initProject(process.cwd(), { library, dialect, source, writes });
      if (options.json) return output.json(forMachines(report, options.print ?? false));
      if (options.print) return printFiles(report, output);
      printReport(report, output);
    });
};

function forMachines({ project, files, nextSteps }: InitReport, hasText: boolean): object {
  const { library, dialect, framework, language, modules, databaseEnv } = project;
  return {
    project: { library: library.name, dialect, framework, language, modules, databaseEnv },
    files: files.map(({ path, status, existing, text }) => ({
      path,
      status,
      existing,
      ...(hasText ? { text } : {}),
    })),
    nextSteps,
  };
}

function printFiles({ files }: InitReport, output: Output): void {
  for (const { path, text } of files) {
    output.line(`# ${path}`);
    output.lines(text.split('\n'));
  }
}

const SAID = { written: 'wrote', planned: 'would write' } as const;

function printReport({ project, files, nextSteps }: InitReport, output: Output): void {
  const { library, hasLibrary, dialect, framework, language, modules } = project;
  const found = [
    hasLibrary ? library.title : 'no library for databases, so pg',
    dialect === 'postgres' ? 'PostgreSQL' : 'MySQL or MariaDB',
    ...(framework === null ? [] : [framework]),
    language === 'typescript' ? 'TypeScript' : modules === 'esm' ? 'ES modules' : 'CommonJS',
  ];
  output.line(`found: ${found.join(', ')}`);
  for (const { path, status, existing } of files) {
    if (status === 'exists') output.line(`exists, left as it is: ${existing ?? path}`);
    else output.line(`${SAID[status]} ${path}`);
  }
  if (files.some(({ status }) => status === 'exists'))
    output.line('What would have been written: outlast init --print');
  output.lines(['', 'Next:', ...nextSteps.map(step => `  ${step}`)]);
}
