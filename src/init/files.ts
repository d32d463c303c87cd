import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { CONFIG_FILES, hasOutlastKey } from '../config/find-config.ts';
import type { Import } from './libraries.ts';
import { findExisting, readText, type Project } from './project.ts';

/** One file that `outlast init` proposes. */
export interface PlannedFile {
  readonly path: string;
  readonly text: string;
  /** The file that is there in its place, and stays as it is; null: it can be written. */
  readonly existing: string | null;
}

const COMPOSE_FILES = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml'];
/** For development: the ports are open on this machine only. */
const PASSWORD = 'outlast';

/** The variable that the application's database is in, or that Outlast's own is read from. */
export const databaseEnv = (project: Project): string =>
  project.databaseEnv ?? 'OUTLAST_DATABASE_URL';

/** URLs of what the compose file starts. */
export const composeUrls = ({ dialect }: Project): Readonly<Record<string, string>> =>
  dialect === 'postgres'
    ? { OUTLAST_DATABASE_URL: `postgres://postgres:${PASSWORD}@127.0.0.1:5432/postgres` }
    : {
        OUTLAST_DATABASE_URL: `mysql://root:${PASSWORD}@127.0.0.1:3306/app`,
        OUTLAST_BROKER_URL: 'redis://127.0.0.1:6379',
      };

/** What is written, in the order in which it is read. `source` is the folder of the code, `src` for example. */
export function planFiles(project: Project, source: string): readonly PlannedFile[] {
  const { folder, extension } = project;
  const plan = (path: string, text: string): PlannedFile => ({
    path,
    text,
    existing: findExisting(folder, path),
  });
  const config = `outlast.config.${extension}`;
  const compose = COMPOSE_FILES.find(name => existsSync(join(folder, name))) ?? null;
  return [
    { path: config, text: configText(project, source), existing: findConfigIn(folder) },
    plan(`${source}/tasks.${extension}`, tasksText(project)),
    plan(`${source}/outlast.${extension}`, instanceText(project, source)),
    plan(`${source}/handlers/say-hello.${extension}`, handlerText(project)),
    plan(`${source}/send-hello.${extension}`, senderText(project)),
    ...(project.databaseEnv === null
      ? [{ path: 'compose.yaml', text: composeText(project), existing: compose }]
      : []),
  ];
}

function findConfigIn(folder: string): string | null {
  const file = CONFIG_FILES.find(name => existsSync(join(folder, name)));
  if (file !== undefined) return file;
  const manifest = join(folder, 'package.json');
  return existsSync(manifest) && hasOutlastKey(manifest) ? 'package.json' : null;
}

interface Module {
  readonly imports: readonly Import[];
  /** As an ES module. */
  readonly body: string;
}

/** The text of a module, in the kind that the project has. */
function write(project: Project, { imports, body }: Module): string {
  const isCommonJs = project.modules === 'commonjs';
  const heads = imports.map(one => {
    const from = one.isOwn ? `${one.from}${project.suffix}` : one.from;
    const names = one.base ?? `{ ${(one.names ?? []).join(', ')} }`;
    return isCommonJs ? `const ${names} = require('${from}');` : `import ${names} from '${from}';`;
  });
  return `${heads.join('\n')}\n\n${isCommonJs ? toCommonJs(body) : body}`;
}

/** Exports stand at the begin of a line. */
function toCommonJs(body: string): string {
  const names = [...body.matchAll(/^export (?:const|async function) (\w+)/gm)].map(
    ([, name]) => name,
  );
  const code = body
    .replace(/^export default ([^]*);$/m, 'module.exports = $1;')
    .replace(/^export /gm, '');
  return names.length === 0 ? code : `${code}\nmodule.exports = { ${names.join(', ')} };\n`;
}

function configText(project: Project, source: string): string {
  const env = databaseEnv(project);
  const database =
    env === 'OUTLAST_DATABASE_URL'
      ? '  // The database is the one that OUTLAST_DATABASE_URL names.\n'
      : `  database: process.env.${env},\n`;
  return write(project, {
    imports: [{ from: 'outlast', names: ['defineConfig'] }],
    body: `export default defineConfig({\n${database}  tasks: ['./${source}/handlers/*'],\n});\n`,
  });
}

const hasZod = ({ packages }: Project): boolean => packages.has('zod');

function tasksText(project: Project): string {
  const typed = (shape: string): string =>
    project.language === 'typescript' ? `unchecked<{ ${shape}: string }>()` : 'unchecked()';
  const schema = (shape: string): string =>
    hasZod(project) ? `z.object({ ${shape}: z.string() })` : typed(shape);
  const unchecked = hasZod(project) ? [] : ['unchecked'];
  return write(project, {
    imports: [
      { from: 'outlast/task', names: ['task', ...unchecked] },
      ...(hasZod(project) ? [{ from: 'zod', names: ['z'] }] : []),
    ],
    body: `// What a task is: imported by the code that sends it, and by the worker that runs it.
${hasZod(project) ? '' : '// `unchecked` takes any value; a schema of zod, valibot or arktype checks it.\n'}export const sayHello = task('app.say-hello', {
  input: ${schema('name')},
  result: ${schema('greeting')},
  timeout: '30s',
});
`,
  });
}

function instanceText(project: Project, source: string): string {
  const { library, dialect, folder } = project;
  const prismaSchema = readText(join(folder, 'prisma/schema.prisma'));
  const up = `${posix.relative(source, '.') || '.'}/`;
  const { imports, setup, adapter, close, ready } = library.instance({ dialect, prismaSchema, up });
  const env = databaseEnv(project);
  return write(project, {
    imports: [
      { from: 'outlast', names: ['createOutlast'] },
      ...imports,
      { from: `${up}outlast.config`, base: 'config', isOwn: true },
    ],
    body: `const url = process.env.${env};
if (!url) throw new Error('set ${env}');

// Put your own ${library.title} here, so that tasks are written in your transactions.
${setup.join('\n')}
export const outlast = createOutlast({ ...config, adapter: ${adapter} });
${ready === undefined ? '' : `export const ready = ${ready};\n`}
export async function closeDatabase() {
  ${close}
}
`,
  });
}

function handlerText(project: Project): string {
  return write(project, {
    imports: [
      { from: '../outlast', names: ['outlast'], isOwn: true },
      { from: '../tasks', names: ['sayHello'], isOwn: true },
    ],
    body: `// Code that runs in a worker. A task that was interrupted runs again: give other services ctx.id as their idempotency key.
export const sayHelloHandler = outlast.handler(sayHello, async ({ name }, ctx) => {
  ctx.log.info({ id: ctx.id }, 'saying hello');
  return { greeting: \`Hello, \${name}!\` };
});
`,
  });
}

function senderText(project: Project): string {
  const { library, language, dialect, folder } = project;
  const { ready } = library.instance({ dialect, prismaSchema: null, up: join(folder, '/') });
  return write(project, {
    imports: [
      {
        from: './outlast',
        names: ['closeDatabase', 'outlast', ...(ready === undefined ? [] : ['ready'])],
        isOwn: true,
      },
      { from: './tasks', names: ['sayHello'], isOwn: true },
    ],
    body: `async function main()${language === 'typescript' ? ': Promise<void>' : ''} {
${ready === undefined ? '' : '  await ready;\n'}  // In your application: your own rows and the task in one transaction. Both or neither.
  const sent = await outlast.transaction(
    async tx => await outlast.send(tx, sayHello, { name: 'world' }),
  );
  const { greeting } = await sent.result({ timeout: '30s' });
  console.log(greeting);
  await outlast.close();
  await closeDatabase();
}

void main();
`,
  });
}

const composeText = ({ dialect }: Project): string =>
  dialect === 'postgres'
    ? `# For development: docker compose up -d
services:
  postgres:
    image: postgres:17
    environment:
      POSTGRES_PASSWORD: ${PASSWORD}
    ports: ['127.0.0.1:5432:5432']
    volumes: ['postgres:/var/lib/postgresql/data']

volumes:
  postgres:
`
    : `# For development: docker compose up -d
services:
  mariadb:
    image: mariadb:11
    environment:
      MARIADB_ROOT_PASSWORD: ${PASSWORD}
      MARIADB_DATABASE: app
    ports: ['127.0.0.1:3306:3306']
    volumes: ['mariadb:/var/lib/mysql']

  # Broker and ledger: keys must not be thrown away when memory is full.
  redis:
    image: redis:7
    command: [redis-server, --appendonly, 'yes', --maxmemory-policy, noeviction]
    ports: ['127.0.0.1:6379:6379']
    volumes: ['redis:/data']

volumes:
  mariadb:
  redis:
`;
