import type { Framework, Project } from './project.ts';
import { composeUrls, databaseEnv, type PlannedFile } from './files.ts';

const GUIDES: Readonly<Record<Framework, string>> = {
  'Next.js':
    'Next.js: send in a route handler or a server action; workers are processes of their own',
  NestJS: 'NestJS: make `outlast` a provider, and send in your services',
  Fastify: 'Fastify: send in your routes; `onClose` is the place for `outlast.close()`',
  Express:
    'Express: send in your routes; `outlast/express` has the answers to bad input and full limits',
  Hono: 'Hono: send in your routes; `outlast/hono` has the answers to bad input and full limits',
};

const ADD = { npm: 'npm i', pnpm: 'pnpm add', yarn: 'yarn add', bun: 'bun add' } as const;
const RUN = { npm: 'npx', pnpm: 'pnpm exec', yarn: 'yarn run', bun: 'bunx' } as const;
const DEV = { npm: '-D', pnpm: '-D', yarn: '-D', bun: '-d' } as const;

/** Packages that the written files need and package.json does not have. */
function missingPackages(project: Project): readonly string[] {
  const { library, dialect, packages } = project;
  // Workers and commands have connections of their own, whatever library the application uses.
  const own = dialect === 'postgres' ? ['pg'] : ['mysql2', 'ioredis'];
  const wanted = new Set(['outlast', ...library.drivers(dialect), ...own]);
  return [...wanted].filter(name => !packages.has(name));
}

/** TypeScript that Node does not load alone, by version or by how files name each other. */
function needsLoader({ language, suffix, packages }: Project): boolean {
  if (language === 'javascript' || packages.has('jiti')) return false;
  return suffix !== '.ts' || !(process.features as { typescript?: unknown }).typescript;
}

/** What a person does next, as commands. */
export function nextSteps(
  project: Project,
  source: string,
  files: readonly PlannedFile[],
): readonly string[] {
  const { manager, language, extension, envFile, framework } = project;
  const missing = missingPackages(project);
  const isTypeScript = language === 'typescript';
  const tools = [
    ...(needsLoader(project) ? ['jiti'] : []),
    ...(isTypeScript && !project.packages.has('tsx') ? ['tsx'] : []),
  ];
  const compose = files.find(file => file.path === 'compose.yaml');
  const urls = compose === undefined ? [] : Object.entries(composeUrls(project));
  const file = envFile === null ? '' : ` --env-file ${envFile}`;
  const sender = `${source}/send-hello.${extension}`;
  const env = envFile === null ? '' : `--env-file=${envFile} `;
  return [
    ...(missing.length > 0 ? [`${ADD[manager]} ${missing.join(' ')}`] : []),
    ...(tools.length > 0 ? [`${ADD[manager]} ${DEV[manager]} ${tools.join(' ')}`] : []),
    ...(compose === undefined ? [] : ['docker compose up -d']),
    ...urls.map(([name, url]) => `export ${name}=${url}`),
    ...(databaseEnv(project) !== 'OUTLAST_DATABASE_URL' && project.dialect === 'mysql'
      ? ['export OUTLAST_BROKER_URL=redis://127.0.0.1:6379   # broker and ledger']
      : []),
    `${RUN[manager]} outlast migrate${file}`,
    `${RUN[manager]} outlast dev${file}   # leave it running`,
    `node ${env}${isTypeScript ? '--import tsx ' : ''}${sender}   # in a second terminal: Hello, world!`,
    ...(framework === null ? [] : [`# ${GUIDES[framework]}`]),
  ];
}
