import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { outlastError } from '../errors/error.ts';
import { planFiles, type PlannedFile } from './files.ts';
import { inspectProject, type Project, type Wishes } from './project.ts';
import { nextSteps } from './steps.ts';

export interface InitOptions extends Wishes {
  /** Where the code goes. @default 'src' */
  readonly source?: string | undefined;
  /** False: nothing is written. */
  readonly writes: boolean;
}

export interface InitReport {
  readonly project: Project;
  /** `written`, or `planned` if nothing is to be written; `exists`: left as it is. */
  readonly files: readonly (PlannedFile & { readonly status: 'written' | 'planned' | 'exists' })[];
  readonly nextSteps: readonly string[];
}

/** Writes what a first task needs, and nothing over what is there. */
export function initProject(folder: string, options: InitOptions): InitReport {
  const source = readSource(options.source ?? 'src');
  const project = inspectProject(folder, options);
  const planned = planFiles(project, source);
  const files = planned.map(file => {
    if (file.existing !== null) return { ...file, status: 'exists' as const };
    if (!options.writes) return { ...file, status: 'planned' as const };
    return { ...file, ...create(join(folder, file.path), file) };
  });
  return { project, files, nextSteps: nextSteps(project, source, planned) };
}

/** `wx`: a file that has come meanwhile, or a link to somewhere else, is not written over either. */
function create(
  path: string,
  { path: name, text }: PlannedFile,
): { readonly status: 'written' | 'exists'; readonly existing: string | null } {
  mkdirSync(dirname(path), { recursive: true });
  try {
    writeFileSync(path, text, { flag: 'wx' });
    return { status: 'written', existing: null };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return { status: 'exists', existing: name };
  }
}

/** A folder within the project: it is written into modules and into the config file. */
function readSource(text: string): string {
  const source = text.replace(/^\.\//, '').replace(/\/$/, '');
  if (/^[\w@-][\w.@-]*(\/[\w@-][\w.@-]*){0,7}$/.test(source)) return source;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `--source is ${JSON.stringify(text)}`,
    hint: 'Give a folder within the project, such as src or packages/shop/src.',
    fields: { option: '--source' },
  });
}
