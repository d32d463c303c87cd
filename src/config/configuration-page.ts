import { OPTION_TABLE, type OptionRow } from './option-table.ts';
import { SECTION_NAMES, type SectionName } from './options.ts';
import { TOP_LEVEL_TABLE } from './top-level.ts';

const INTRO = `# Configuration

<!-- Generated from src/config. Run \`npx vitest run src/config -u\` after changing an option. -->

Every option has one name in three spellings: the key in \`outlast.config.ts\` and in code, the flag, and the
variable. The first of these that gives a value decides: flag, variable, file, default. Options handed to
\`startRelay\`, \`startWorker\` and \`startResurrector\` count as flags; the object given to \`createOutlast\` counts
as the file.

- **Durations** are text with a unit in code: \`'250ms'\`, \`'30s'\`, \`'5m'\`, \`'2h'\`, \`'7d'\`. As a flag or variable a
  bare number is seconds, and \`500ms\` is taken too.
- **A number of seconds** is written without a unit everywhere, because its name ends in \`Seconds\`.
- An option nobody knows is an error (\`ERR_UNKNOWN_OPTION\`) and names the nearest known one. So is a variable that
  begins with \`OUTLAST_RELAY_\`, \`OUTLAST_WORKER_\` or \`OUTLAST_RESURRECTOR_\`; other \`OUTLAST_\` names are left alone.

The config file is the one given by \`--config\`, else the first of \`outlast.config.ts\`, \`.mts\`, \`.js\`, \`.mjs\`,
\`.json\` or a \`package.json\` with an \`outlast\` key, from the working directory upward. A relative database folder
starts at the config file; in a variable it starts at the working directory.

The config file and the modules of \`tasks\` are loaded by one loader: Node itself, or, where Node does not take
TypeScript (before 22.18), the project's own \`jiti\`. \`--loader jiti\` is for code that needs more than stripped types
(\`enum\`, \`./db.js\` for \`db.ts\`, \`await using\` on Node 22), \`--loader native\` refuses jiti. A pattern in \`tasks\` without an
extension takes the config's own kind, so one line serves \`src/*.ts\` and \`dist/*.js\`; tests and \`.d.ts\` are skipped.
`;

const DATABASE = `URLs are never flags. \`OUTLAST_RESULT_URL\` is refused with \`ERR_CONFIG_TIER\`: results are kept where the ledger is.

### The broker

| key | default | meaning |
| --- | --- | --- |
| \`url\` | none | \`amqp://user:password@host:5672/vhost\` or \`amqps://…\`; several hosts as \`host1,host2\` or as whole URLs with \`;\` between. \`redis://\`, \`rediss://\`, \`sentinel://\`, \`redis+cluster://\`. The variable takes the place of this one; the others stay. |
| \`queueType\` | \`classic\` | \`classic\` or \`quorum\`: RabbitMQ queues that are not there yet. Those that are stay as they are. |
| \`maxPriority\` | none | 1 to 255: priorities of classic RabbitMQ queues declared here, as Celery's \`task_queue_max_priority\`. |
| \`ackOn\` | \`commit\`; where \`ledger\` is the same Redis \`begin\` | \`commit\`: the broker's copy is let go when the run is settled, after 10 minutes at the latest; \`begin\`: as soon as the ledger has the task. |
| \`chordQueue\` | \`outlast.chords\` | where Python's workers tell how the parts of [our chords](../guides/workflows.md#headers-in-two-languages) ended, unless the ledger is in their Redis. Another for each installation that shares a broker. |
| \`replies\` | \`on\` | answers to senders that wait for one, as Celery's \`rpc://\` results; RabbitMQ. Every Celery producer names a queue for them: \`off\` saves a message for each task where results are kept elsewhere. |

An AMQP URL may say \`?heartbeat=\` (seconds, 10), \`connection_timeout=\` (milliseconds, 5000), and for \`amqps\`
\`cacertfile=\`, \`certfile=\`, \`keyfile=\`, \`server_name_indication=\`. Certificates are always verified.

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

const RELATIONS = `## Relations

Options that are fine alone and wrong together are refused with \`ERR_OPTIONS_CONFLICT\`:

- \`relay.staleTimeoutSeconds\` is longer than \`relay.sendTimeout\`: a claim must not end during a publish.
- \`worker.lease\` is at least three times \`worker.beat\`: two lost beats are not a death.
- \`worker.dedupWindow\` is at least three times \`relay.staleTimeoutSeconds\`: a late copy must find its task remembered.

Legal but seldom meant, and so a warning: \`worker.lease\` under 3 s, \`relay.maxBackoff\` under \`relay.backoffTime\`,
\`relay.publishConcurrency\` over \`relay.batchSize\`, \`relay.idleTime\` over 30 s, \`relay.brokerOutageCooldown\` over 5 min,
\`resurrector.interval\` over 10 s.
`;

const TITLES: Readonly<Record<SectionName, string>> = {
  relay: '`relay`: from the outbox to the broker',
  worker: '`worker`: running tasks',
  resurrector: '`resurrector`: bringing back what died',
};

const code = (text: string): string => `\`${text}\``;
const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function sectionTable(rows: readonly OptionRow[]): string {
  return table(
    ['key', 'flag', 'variable', 'default', 'values', 'meaning'],
    rows.map(row => [
      code(row.key),
      code(row.flag),
      code(row.env),
      code(row.default),
      row.range,
      row.sentence,
    ]),
  );
}

/** The text of `docs/reference/configuration.md`. */
export function configurationPage(): string {
  const top = table(
    ['key', 'variable', 'default', 'meaning'],
    TOP_LEVEL_TABLE.map(row => [
      code(row.key),
      row.env === null ? 'none' : code(row.env),
      row.default === 'none' ? 'none' : code(row.default),
      row.sentence,
    ]),
  );
  const sections = SECTION_NAMES.map(
    name => `## ${TITLES[name]}\n\n${sectionTable(OPTION_TABLE[name])}\n`,
  );
  return [INTRO, `## Top level\n\n${top}\n\n${DATABASE}`, ...sections, RELATIONS].join('\n');
}
