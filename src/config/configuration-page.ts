import { BROKER_TABLE } from '../options/broker-table.ts';
import { CELERY_TABLE } from '../options/celery-table.ts';
import type { OptionTable } from '../options/option.ts';
import { SCHEDULE_TABLE } from '../options/schedule-table.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { RELATION_OF_STAGES } from './check-relations.ts';
import { code, defaultCell, markdownTable, meaningOf } from './option-markdown.ts';
import { OPTION_TABLE, type OptionRow } from './option-table.ts';
import { SECTION_NAMES, type SectionName } from './options.ts';
import { RELAY_SECTION } from './relay-options.ts';
import type { Section } from './resolve-section.ts';
import { RESURRECTOR_SECTION } from './resurrector-options.ts';
import { WORKER_SECTION } from './worker-options.ts';

const INTRO = `# Configuration

<!-- Written by \`npm run build\` from src/options and src/config/configuration-page.ts. -->

Every option has one name in three spellings: the key in \`outlast.config.ts\` and in code, the flag, and the
variable. The first of these that gives a value decides: flag, variable, file, default. Options handed to
\`startRelay\`, \`startWorker\` and \`startResurrector\` count as flags; the object given to \`createOutlast\` counts
as the file.

- **Durations** are text with a unit in code: \`'250ms'\`, \`'30s'\`, \`'5m'\`, \`'2h'\`, \`'7d'\`. As a flag or variable a
  bare number is seconds, and \`500ms\` is taken too.
- **A number of seconds** is written without a unit everywhere, because its name ends in \`Seconds\`.
- An unknown option is an error (\`ERR_UNKNOWN_OPTION\`) and names the nearest known one. So is a variable that
  begins with \`OUTLAST_RELAY_\`, \`OUTLAST_WORKER_\` or \`OUTLAST_RESURRECTOR_\`; other \`OUTLAST_\` names are left alone.

The config file is the one given by \`--config\`, else the first of \`outlast.config.ts\`, \`.mts\`, \`.js\`, \`.mjs\`,
\`.cjs\`, \`.json\` or a \`package.json\` with an \`outlast\` key, from the working directory upward: to the root of the repository
(\`.git\`) or of the workspace (\`pnpm-workspace.yaml\`, \`workspaces\` in \`package.json\`), else to the nearest
\`package.json\`, else no further than the working directory. It is code, so one that was found in this way must belong to you,
to root or to the owner of the working directory, and not every user may write to it or replace it; else it is
\`ERR_CONFIG_LOAD\`. One that you name is loaded as it is ([why](../decisions/0031-trusted-config-files.md)). Windows has no such
owners. A relative database folder starts at the config file; in a variable it starts at the working directory.

\`pglite:memory://\` is in the memory of the process that opens it, one at a time in each, and gone when it is closed. Handlers in threads and
processes of \`startWorker\`, and the workers of \`outlast dev\`, reach it there. A command that is a process of its own (\`worker\`,
\`send\`, \`migrate\`, …) refuses it with \`ERR_CONFIG_TIER\`: it would have a memory of its own.

The config file and the modules of \`tasks\` are loaded by one loader, so that a module of yours, and its pool, is there once. It is
Node itself. Where Node alone does not take them, it is the project's own \`jiti\` (\`npm i -D jiti\`): TypeScript before Node 22.18, and
later \`enum\`, \`./db.js\` for \`db.ts\`, types imported as values, \`await using\` on Node 22. It is chosen before anything of yours
runs, by what the config file and the modules named in it import; a pattern that the config file computes is not seen, and then
\`--loader jiti\` says it. \`--loader native\` refuses jiti. Under \`tsx\` (\`node --import tsx\`, or in \`NODE_OPTIONS\`) tsx loads all of it,
also in worker processes and, since Node 22, in threads ([why](../decisions/0180-the-loader-is-chosen-by-linking.md)). A pattern in \`tasks\` without an
extension takes the config's own kind, so one line serves \`src/*.ts\` and \`dist/*.js\`; tests and \`.d.ts\` are skipped.
`;

const plainTable = (table: OptionTable): string =>
  markdownTable(
    ['key', 'default', 'meaning'],
    Object.entries(table).map(([key, row]) => [code(key), defaultCell(row), meaningOf(row)]),
  );

const MESSAGING = `URLs are never flags. \`OUTLAST_RESULT_URL\` is refused with \`ERR_CONFIG_TIER\`: results are kept where the ledger is.

### The broker

${plainTable(BROKER_TABLE)}

An AMQP URL may say \`?heartbeat=\` (seconds, 10), \`connection_timeout=\` (milliseconds, 5000), and for \`amqps\`
\`cacertfile=\`, \`certfile=\`, \`keyfile=\`, \`server_name_indication=\`. Certificates are always verified.

### \`celery\`

${plainTable(CELERY_TABLE)}

### \`schedule\`

${plainTable(SCHEDULE_TABLE)}

### Tiers

| \`database\` | \`broker\` | \`ledger\` |
| --- | --- | --- |
| \`pglite:\`, \`postgres://\` | none | the database |
| \`pglite:\`, \`postgres://\` | RabbitMQ | the database, or a Redis: \`ledger\` |
| \`pglite:\`, \`postgres://\` | Redis | that Redis, or another: \`ledger\` |
| \`mysql://\`, \`mariadb://\` | Redis | that Redis, or another: \`ledger\` |
| \`mysql://\`, \`mariadb://\` | RabbitMQ | a Redis: \`ledger\` must be given |

\`ledger\` takes \`redis://\`, \`rediss://\`, \`sentinel://\` and \`redis+cluster://\`. Results are kept there for
\`worker.resultTtl\`, in Celery's format too unless it is a cluster. [Redis](../operations/redis.md) must be set up not to forget.

Anything else is refused with \`ERR_CONFIG_TIER\`: MySQL and MariaDB, which hold an outbox and nothing else, without a
broker, or with RabbitMQ and no \`ledger\`; a \`ledger\` without a \`broker\`, where no worker would look for what the relay moves.
`;

const SECTIONS: readonly Section<never>[] = [RELAY_SECTION, WORKER_SECTION, RESURRECTOR_SECTION];

function relations(): string {
  const conflicts = SECTIONS.flatMap(section => section.conflicts.map(({ sentence }) => sentence));
  const odd = SECTIONS.flatMap(section => section.oddities.map(({ sentence }) => sentence));
  return `## Relations

Options that are fine alone and wrong together are refused with \`ERR_OPTIONS_CONFLICT\`:

${[...conflicts, RELATION_OF_STAGES].map(sentence => `- ${sentence}`).join('\n')}

Legal but seldom meant, and so a warning:

${odd.map(sentence => `- ${sentence}`).join('\n')}
`;
}

const TITLES: Readonly<Record<SectionName, string>> = {
  relay: '`relay`: from the outbox to the broker',
  worker: '`worker`: running tasks',
  resurrector: '`resurrector`: bringing back what died',
};

function sectionTable(rows: readonly OptionRow[]): string {
  return markdownTable(
    ['key', 'flag', 'variable', 'default', 'values', 'meaning'],
    rows.map(row => [
      code(row.key),
      code(row.flag),
      code(row.env),
      `${code(row.default)}${row.defaultNote}`,
      row.range,
      row.sentence,
    ]),
  );
}

/** The text of `docs/reference/configuration.md`. */
export function configurationPage(): string {
  const top = markdownTable(
    ['key', 'variable', 'default', 'meaning'],
    Object.entries(TOP_LEVEL_TABLE).map(([key, row]) => [
      code(key),
      row.env === undefined ? 'none' : code(row.env),
      defaultCell(row),
      meaningOf(row),
    ]),
  );
  const sections = SECTION_NAMES.map(
    name => `## ${TITLES[name]}\n\n${sectionTable(OPTION_TABLE[name])}\n`,
  );
  return [INTRO, `## Top level\n\n${top}\n\n${MESSAGING}`, ...sections, relations()].join('\n');
}
