// @ts-check
/**
 * Writes what follows from the tables in src/options: the types of options, and their reference pages. `--check` writes
 * nothing and fails when a file is not what the tables say.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import { givenInterface, namedTypes, resolvedInterface } from './option-types.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HEADER =
  '// Written by scripts/write-options.mjs from the tables in src/options; edit those and run npm run build.\n';

/** TypeScript itself is not loaded by every Node we build with. */
const jiti = createJiti(import.meta.url, { fsCache: false, moduleCache: true });

/**
 * @template T
 * @param {string} file under src
 * @returns {Promise<T>}
 */
const load = file => jiti.import(join(ROOT, 'src', file));

/** @typedef {import('../src/options/option.ts').OptionTable} OptionTable */

/**
 * @param {readonly string[]} imports
 * @param {readonly string[]} parts
 */
const moduleOf = (imports, parts) =>
  `${HEADER}${imports.map(line => `import type ${line};\n`).join('')}\n${parts.join('\n')}`;

const STAGES = { relay: 'the relay', worker: 'a worker', resurrector: 'the resurrector' };

/** @param {Awaited<ReturnType<typeof loadTables>>} tables */
function configModule({ option, stages, topLevel, broker, celery, schedule }) {
  const parts = Object.entries(STAGES).flatMap(([stage, who]) => {
    const table = /** @type {Record<string, OptionTable>} */ (stages)[stage] ?? {};
    const name = `${stage.charAt(0).toUpperCase()}${stage.slice(1)}Options`;
    const sentence = `What a user may say about ${who}. Durations are text with a unit.`;
    return [
      givenInterface({ name, sentence, table, takesUndefined: true }),
      resolvedInterface(
        {
          name: `Resolved${name}`,
          sentence: `What ${who} runs on: checked, complete, in milliseconds.`,
          table,
        },
        option.resolvedName,
      ),
    ];
  });
  const sections = Object.keys(STAGES).map(
    stage => `${stage}?: ${stage.charAt(0).toUpperCase()}${stage.slice(1)}Options | undefined`,
  );
  return moduleOf(
    [
      "{ ContextOption } from '../task/context-headers.ts'",
      "{ TaskCall } from '../task/define-task.ts'",
      "{ Duration } from '../task/duration.ts'",
      "{ Redactor } from '../task/redact.ts'",
      "{ EventListeners } from '../telemetry/events.ts'",
      "{ Logger, LogSettings } from '../telemetry/logger.ts'",
      "{ AdmissionOptions } from './admission.ts'",
      "{ CeleryRoutes } from './celery.ts'",
      "{ MetricsOptions } from './metrics.ts'",
      "{ Queues } from './queues.ts'",
      "{ RetentionOptions } from './retention.ts'",
      "{ TracesOptions } from './traces.ts'",
    ],
    [
      ...parts,
      givenInterface({
        name: 'BrokerOptions',
        sentence: 'What a user writes about the broker, where a URL alone does not say enough.',
        table: broker,
        takesUndefined: true,
      }),
      givenInterface({
        name: 'CeleryOptions',
        sentence: 'What a user writes about the Celery applications at the same broker.',
        table: celery,
        takesUndefined: true,
      }),
      givenInterface({
        name: 'ScheduleOptions',
        sentence: 'What a user says about a schedule: either `cron` or `every`.',
        table: schedule,
        takesUndefined: true,
      }),
      givenInterface({
        name: 'OutlastConfig',
        sentence: 'What a user writes in `outlast.config.ts` or gives to `createOutlast`.',
        table: topLevel,
        takesUndefined: true,
        more: sections,
      }),
    ],
  );
}

/** @param {Awaited<ReturnType<typeof loadTables>>} tables */
function taskModule({ task, rule, send }) {
  const having = (/** @type {'header' | 'isInherited'} */ mark) =>
    Object.fromEntries(Object.entries(send).filter(([, row]) => row[mark] !== undefined));
  return moduleOf(
    [
      "{ Duration } from './duration.ts'",
      "{ Permit } from './permit.ts'",
      "{ JsonOnly, ShapeOf } from './shape.ts'",
    ],
    [
      ...namedTypes([rule], { takesUndefined: true }),
      givenInterface({
        name: 'AdmissionRuleOptions',
        sentence: 'What may be limited.',
        table: rule,
        takesUndefined: true,
      }),
      givenInterface({
        name: 'TaskOptions<I, R, A, K, P = readonly string[]>',
        sentence: 'What a contract says about its task.',
        table: task,
      }),
      ...namedTypes([send]),
      givenInterface({
        name: 'SendOptionsOf<Step>',
        sentence: 'Options of one send; `Step` is what may follow it.',
        table: send,
      }),
      givenInterface({
        name: 'TravellingOptions',
        sentence: 'Options of a send that travel as they are, in a header and in an envelope.',
        table: having('header'),
      }),
      givenInterface({
        name: 'InheritedOptions',
        sentence: 'Options of a send that its follow-ups have too.',
        table: having('isInherited'),
      }),
    ],
  );
}

/** @param {Awaited<ReturnType<typeof loadTables>>} tables */
const contractModule = ({ option, task }) =>
  moduleOf(
    [
      "{ ContractAdmission } from './contract-admission.ts'",
      "{ Idempotency } from './idempotency.ts'",
      "{ Ordering } from './ordering.ts'",
      "{ Slo } from './slo.ts'",
      "{ StandardSchema } from './standard-schema.ts'",
    ],
    [
      resolvedInterface(
        {
          name: 'Contract',
          sentence: 'What a contract says, checked and with defaults.',
          table: task,
        },
        option.resolvedName,
      ),
    ],
  );

/** @param {Awaited<ReturnType<typeof loadTables>>} tables */
const handlerModule = ({ option, handler }) =>
  moduleOf(
    [
      "{ TaskShape } from '../task/define-task.ts'",
      "{ Duration } from '../task/duration.ts'",
      "{ StandardSchema } from '../task/standard-schema.ts'",
      "{ TaskContext } from './context.ts'",
      "{ HandlerFunction } from './handler-function.ts'",
    ],
    [
      ...namedTypes([handler]),
      givenInterface({
        name: 'HandlerOptions<S extends TaskShape, Tx, C>',
        sentence: 'What the code of a task says about its runs.',
        table: handler,
      }),
      resolvedInterface(
        {
          name: 'ResolvedHandlerOptions',
          sentence: 'What a worker knows about the runs of a task: checked and complete.',
          table: handler,
        },
        option.resolvedName,
      ),
    ],
  );

async function loadTables() {
  /** @type {typeof import('../src/options/option.ts')} */
  const option = await load('options/option.ts');
  const named = async (/** @type {string} */ file) => await load(`options/${file}-table.ts`);
  const [relay, worker, resurrector, topLevel, broker, celery, schedule, task, handler, send] =
    await Promise.all(
      [
        'relay',
        'worker',
        'resurrector',
        'top-level',
        'broker',
        'celery',
        'schedule',
        'task',
        'handler',
        'send',
      ].map(named),
    );
  return {
    option,
    stages: {
      relay: /** @type {OptionTable} */ (relay.RELAY_TABLE),
      worker: /** @type {OptionTable} */ (worker.WORKER_TABLE),
      resurrector: /** @type {OptionTable} */ (resurrector.RESURRECTOR_TABLE),
    },
    topLevel: /** @type {OptionTable} */ (topLevel.TOP_LEVEL_TABLE),
    broker: /** @type {OptionTable} */ (broker.BROKER_TABLE),
    celery: /** @type {OptionTable} */ (celery.CELERY_TABLE),
    schedule: /** @type {OptionTable} */ (schedule.SCHEDULE_TABLE),
    task: /** @type {OptionTable} */ (task.TASK_TABLE),
    rule: /** @type {OptionTable} */ (task.ADMISSION_RULE_TABLE),
    handler: /** @type {OptionTable} */ (handler.HANDLER_TABLE),
    send: /** @type {Record<string, import('../src/options/send-table.ts').SendRow>} */ (
      send.SEND_TABLE
    ),
  };
}

/** The types, by path. */
async function typeFiles() {
  const tables = await loadTables();
  return new Map([
    ['src/config/options.generated.ts', configModule(tables)],
    ['src/task/options.generated.ts', taskModule(tables)],
    ['src/task/contract.generated.ts', contractModule(tables)],
    ['src/worker/options.generated.ts', handlerModule(tables)],
  ]);
}

const BLOCK = /(<!-- send options: written by npm run build -->\n)[^]*?(\n<!-- end -->)/;

/** The reference pages, by path. */
async function pageFiles() {
  /** @type {typeof import('../src/config/configuration-page.ts')} */
  const configuration = await load('config/configuration-page.ts');
  /** @type {typeof import('../src/config/task-options-page.ts')} */
  const taskOptions = await load('config/task-options-page.ts');
  const cli = readFileSync(join(ROOT, 'docs/reference/cli.md'), 'utf8');
  if (!BLOCK.test(cli)) throw new Error('docs/reference/cli.md has no place for the send options');
  return new Map([
    ['docs/reference/configuration.md', configuration.configurationPage()],
    ['docs/reference/task-options.md', taskOptions.taskOptionsPage()],
    [
      'docs/reference/cli.md',
      cli.replace(BLOCK, (_, open, close) => open + taskOptions.sendFlagsTable() + close),
    ],
  ]);
}

async function main() {
  const files = new Map([...(await typeFiles()), ...(await pageFiles())]);
  const stale = [...files].filter(([file, text]) => {
    const path = join(ROOT, file);
    return !existsSync(path) || readFileSync(path, 'utf8') !== text;
  });
  if (!process.argv.includes('--check')) {
    for (const [file, text] of stale) writeFileSync(join(ROOT, file), text);
    return 0;
  }
  for (const [file] of stale)
    console.error(`${relative(ROOT, join(ROOT, file))} is stale: npm run build`);
  return stale.length === 0 ? 0 : 1;
}

process.exitCode = await main();
