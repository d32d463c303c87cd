import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { outlastError } from '../errors/error.ts';
import { LIBRARIES, type Dialect, type Library } from './libraries.ts';

/** How files name each other: what the compiler and the bundler of the project expect. */
export type Suffix = '.ts' | '.js' | '.mjs' | '';

/** What `outlast init` found in a folder. */
export interface Project {
  readonly folder: string;
  readonly language: 'typescript' | 'javascript';
  readonly modules: 'esm' | 'commonjs';
  /** Of the files that are written. */
  readonly extension: 'ts' | 'js' | 'mjs';
  readonly suffix: Suffix;
  readonly library: Library;
  /** False: nothing that Outlast has an adapter for is installed, and `pg` is proposed. */
  readonly hasLibrary: boolean;
  readonly dialect: Dialect;
  readonly framework: Framework | null;
  readonly packages: ReadonlySet<string>;
  readonly manager: 'npm' | 'pnpm' | 'yarn' | 'bun';
  /** The variable that holds the URL of the application's database; null: none was found. */
  readonly databaseEnv: string | null;
  /** The env file that has it. */
  readonly envFile: string | null;
}

export type Framework = 'Next.js' | 'NestJS' | 'Fastify' | 'Express' | 'Hono';

/** The first that is found; Next and Nest come with one of the others. */
const FRAMEWORKS: readonly (readonly [string, Framework])[] = [
  ['next', 'Next.js'],
  ['@nestjs/core', 'NestJS'],
  ['fastify', 'Fastify'],
  ['express', 'Express'],
  ['hono', 'Hono'],
];

const MYSQL = [
  'mysql2',
  'mariadb',
  '@prisma/adapter-mariadb',
  '@mikro-orm/mysql',
  '@mikro-orm/mariadb',
];
const POSTGRES = [
  'pg',
  'postgres',
  '@prisma/adapter-pg',
  '@mikro-orm/postgresql',
  '@electric-sql/pglite',
];
const DATABASE_VARIABLES = ['OUTLAST_DATABASE_URL', 'DATABASE_URL'];
const ENV_FILES = ['.env', '.env.local', '.env.development'];
const LOCKFILES: readonly (readonly [string, Project['manager']])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
];
/** A manifest or a settings file that is larger than this is none. */
const MAX_BYTES = 1_048_576;

export interface Wishes {
  readonly library?: string | undefined;
  readonly dialect?: Dialect | undefined;
}

export function inspectProject(folder: string, wishes: Wishes = {}): Project {
  const manifest = readManifest(folder);
  const packages = packagesOf(manifest);
  const settings = readText(join(folder, 'tsconfig.json'));
  const isTypeScript = packages.has('typescript') || settings !== null;
  const isEsm = manifest === null || manifest['type'] === 'module';
  const extension = isTypeScript ? 'ts' : manifest === null ? 'mjs' : 'js';
  const found = findLibrary(packages);
  const library =
    wishes.library === undefined ? (found ?? libraryOf('pg')) : libraryOf(wishes.library);
  return {
    folder,
    language: isTypeScript ? 'typescript' : 'javascript',
    modules: isTypeScript || isEsm ? 'esm' : 'commonjs',
    extension,
    suffix: isTypeScript ? suffixOf(settings ?? '') : `.${extension === 'mjs' ? 'mjs' : 'js'}`,
    library,
    hasLibrary: wishes.library !== undefined || found !== null,
    dialect: wishes.dialect ?? dialectOf(library, packages, folder),
    framework: FRAMEWORKS.find(([name]) => packages.has(name))?.[1] ?? null,
    packages,
    manager: LOCKFILES.find(([name]) => existsSync(join(folder, name)))?.[1] ?? 'npm',
    ...findDatabase(folder),
  };
}

function findLibrary(packages: ReadonlySet<string>): Library | null {
  const isThere = ({ packages: own }: Library): boolean => own.some(name => packages.has(name));
  return LIBRARIES.find(isThere) ?? null;
}

function libraryOf(name: string): Library {
  const library = LIBRARIES.find(one => one.name === name);
  if (library !== undefined) return library;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `--library is ${JSON.stringify(name)}`,
    hint: `Use one of ${LIBRARIES.map(one => one.name).join(', ')}.`,
    fields: { option: '--library' },
  });
}

/** An application may have drivers for both; PostgreSQL can do more, so it is the first choice. */
function dialectOf(library: Library, packages: ReadonlySet<string>, folder: string): Dialect {
  if (library.dialects.length === 1) return library.dialects[0] ?? 'postgres';
  const schema = readText(join(folder, 'prisma/schema.prisma')) ?? '';
  if (library.name === 'prisma' && /provider\s*=\s*"mysql"/.test(schema)) return 'mysql';
  const has = (names: readonly string[]): boolean => names.some(name => packages.has(name));
  return has(MYSQL) && !has(POSTGRES) ? 'mysql' : 'postgres';
}

/** Comments are allowed in it, so it is looked at as text. */
function suffixOf(settings: string): Suffix {
  if (/"(allowImportingTsExtensions|rewriteRelativeImportExtensions)"\s*:\s*true/.test(settings))
    return '.ts';
  return /"moduleResolution"\s*:\s*"bundler"/i.test(settings) ? '' : '.js';
}

function findDatabase(folder: string): Pick<Project, 'databaseEnv' | 'envFile'> {
  for (const file of [null, ...ENV_FILES]) {
    const text = file === null ? null : readText(join(folder, file));
    const isSet = (name: string): boolean =>
      file === null
        ? process.env[name] !== undefined
        : new RegExp(`^\\s*(export\\s+)?${name}\\s*=`, 'm').test(text ?? '');
    const databaseEnv = DATABASE_VARIABLES.find(isSet);
    if (databaseEnv !== undefined) return { databaseEnv, envFile: file };
  }
  return { databaseEnv: null, envFile: null };
}

type Manifest = Readonly<Record<string, unknown>>;

function readManifest(folder: string): Manifest | null {
  const file = join(folder, 'package.json');
  const text = readText(file);
  if (text === null) return null;
  try {
    const parsed: unknown = JSON.parse(text.replace(/^\uFEFF/, ''));
    if (typeof parsed === 'object' && parsed !== null) return parsed as Manifest;
  } catch {
    // Said below, with what is not an object.
  }
  throw outlastError('ERR_CONFIG_LOAD', {
    message: `${file} is not a JSON object`,
    hint: 'Correct it, or run `npm init` in this folder.',
    fields: { file },
  });
}

function packagesOf(manifest: Manifest | null): ReadonlySet<string> {
  const groups = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies'];
  return new Set(groups.flatMap(group => Object.keys(manifest?.[group] ?? {})));
}

/** Null: there is no such file. */
export function readText(file: string): string | null {
  if (!existsSync(file)) return null;
  const { size } = statSync(file);
  return statSync(file).isFile() && size <= MAX_BYTES ? readFileSync(file, 'utf8') : null;
}

const MODULE = /\.[cm]?[jt]sx?$/;

/** A file that is there already: the same one, or a module of the same name in another language. */
export function findExisting(folder: string, path: string): string | null {
  if (existsSync(join(folder, path))) return path;
  if (!MODULE.test(path)) return null;
  const at = path.lastIndexOf('/');
  const [place, name] = [path.slice(0, at + 1), path.slice(at + 1).replace(MODULE, '')];
  const files = existsSync(join(folder, place)) ? readdirSync(join(folder, place)) : [];
  const other = files.find(file => MODULE.test(file) && file.replace(MODULE, '') === name);
  return other === undefined ? null : `${place}${other}`;
}
