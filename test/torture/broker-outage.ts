import { createOutlast, task, unchecked } from '../../dist/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { CliProject, type CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { startRabbit } from '../support/rabbit-server.ts';

/**
 * Stops a private RabbitMQ for a while, with 1, 100 and 10,000 rows that want to be published, and prints what told of it and after how
 * many seconds: figures, log lines, checks of the doctor, alert rules. The three have a database, a relay and a worker each, and one
 * outage.
 */
const OUTAGE_MS = Number(process.argv[2] ?? 60) * 1_000;
const SIZES = [1, 100, 10_000];
const SCRAPE_MS = 1_000;

const wait = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

/** The expressions of docs/operations/prometheus-alerts.yml that an outage is about, by name, and what their `for` says. */
const RULES = {
  OutlastBacklogOld: { forMs: 0, isTrue: (text: string) => gauge(text, AGE) > 60 },
  OutlastBreakerOpen: { forMs: 30_000, isTrue: (text: string) => gauge(text, BREAKER) > 0 },
} as const;
const AGE = 'outlast_oldest_pending_age_seconds';
const BREAKER = 'outlast_breaker_state';

/** NaN: it is not there. */
function gauge(text: string, name: string): number {
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1] ?? NaN);
}

/** One size: its programs, and what was seen when. */
class Case {
  readonly #rows: number;
  readonly #seen = new Map<string, string>();
  #database!: MigratedDatabase;
  #project!: CliProject;
  #relay!: CliProcess;
  #worker!: CliProcess;
  #port = 0;
  #from = 0;
  readonly #trueSince = new Map<string, number>();
  #read = { relay: 0, worker: 0 };

  constructor(rows: number) {
    this.#rows = rows;
  }

  async open(broker: string): Promise<void> {
    this.#database = await migratedDatabase(`outage_${this.#rows}`);
    this.#port = await freePort();
    const queue = `outage-${this.#rows}`;
    const env = {
      OUTLAST_DATABASE_URL: this.#database.url,
      OUTLAST_BROKER_URL: broker,
    };
    this.#project = new CliProject(
      {
        'outlast.config.mjs': `export default { tasks: ['./handlers.mjs'], worker: { queues: ['${queue}'] } };`,
        'handlers.mjs': `import { createOutlast, task, unchecked } from 'outlast';
          const outlast = createOutlast();
          export const echo = outlast.handler(task('outage.echo', { queue: '${queue}', input: unchecked() }), () => undefined);`,
      },
      env,
    );
    this.#worker = this.#project.start(['worker', '--processes', '1']);
    this.#relay = this.#project.start(['relay', '--health-port', String(this.#port)]);
    await this.#worker.says('worker open');
    await until(async () => gauge(await this.#scrape(), 'outlast_queue_depth') === 0);
  }

  /** Commits the rows while the broker is away. */
  async write(): Promise<void> {
    const outlast = createOutlast({
      database: this.#database.url,
      broker: 'amqp://127.0.0.1:1',
      adapter: fromPg(this.#database.pool),
    });
    const queue = `outage-${this.#rows}`;
    const echo = task('outage.echo', { queue, input: unchecked<number>() });
    const calls = Array.from({ length: this.#rows }, (_, n) => echo.with(n));
    await outlast.transaction(tx => outlast.sendMany(tx, calls));
    await outlast.close();
  }

  begin(from: number): void {
    this.#from = from;
    this.#read = { relay: this.#relay.stderr.length, worker: this.#worker.stderr.length };
  }

  #note(what: string, more = ''): void {
    if (this.#seen.has(what)) return;
    this.#seen.set(what, `${((performance.now() - this.#from) / 1_000).toFixed(0)}${more}`);
  }

  async watch(signal: AbortSignal): Promise<void> {
    const asking = this.#ask(signal);
    while (!signal.aborted) {
      this.#look(await this.#scrape());
      this.#readLogs('relay', this.#relay);
      this.#readLogs('worker', this.#worker);
      await wait(SCRAPE_MS);
    }
    await asking;
  }

  #look(text: string): void {
    if (gauge(text, 'outlast_queue_depth') > 0) this.#note('figure queue_depth > 0');
    if (gauge(text, AGE) > 10) this.#note('figure oldest_pending_age > 10 s');
    if (gauge(text, BREAKER) > 0) this.#note('figure breaker_state > 0');
    if (gauge(text, 'outlast_circuit_trips_total') > 0) this.#note('figure circuit_trips > 0');
    if (gauge(text, 'outlast_deferrals_total') > 0) this.#note('figure deferrals > 0');
    if (gauge(text, 'outlast_messages_failed_total') > 0) this.#note('figure messages_failed > 0');
    for (const [name, { isTrue, forMs }] of Object.entries(RULES)) {
      if (!isTrue(text)) this.#trueSince.delete(name);
      else if (!this.#trueSince.has(name)) this.#trueSince.set(name, performance.now());
      const since = this.#trueSince.get(name);
      if (since === undefined) continue;
      this.#note(`rule ${name} pending`);
      if (performance.now() - since >= forMs) this.#note(`rule ${name} fires`);
    }
  }

  #readLogs(of: 'relay' | 'worker', { stderr }: CliProcess): void {
    const lines = stderr.slice(this.#read[of]).split('\n');
    this.#read[of] = stderr.length - (lines.pop() ?? '').length;
    for (const line of lines) {
      const [, level, message] = /^\S+ (warn|error) +(.*?)(?: \w+=.*)?$/.exec(line) ?? [];
      if (level !== undefined) this.#note(`log ${of} ${level}: ${(message ?? '').slice(0, 70)}`);
    }
  }

  async #ask(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const flags = ['--json', '--max-pending-age', '10s'];
      const { stdout } = await this.#project.run('doctor', ...flags);
      const { checks } = JSON.parse(stdout) as {
        readonly checks: readonly { target: string; name: string; status: string }[];
      };
      for (const { target, name, status } of checks)
        if (status === 'problem') this.#note(`doctor ${target} ${name}`);
      await wait(2_000);
    }
  }

  /** Until everything has run. */
  async recover(): Promise<void> {
    await until(async () => {
      const { rows } = await this.#database.pool.query<{ left: string }>(
        'select (select count(*) from outlast_outbox)::text as left',
      );
      return rows[0]?.left === '0';
    });
    this.#note('the outbox is empty');
    await until(async () => gauge(await this.#scrape(), 'outlast_queue_depth') === 0);
    this.#note('figure queue_depth is 0 again');
  }

  async #scrape(): Promise<string> {
    const answer = await fetch(`http://127.0.0.1:${this.#port}/metrics`).catch(() => null);
    return (await answer?.text()) ?? '';
  }

  /** Seconds after the broker was killed; null: it said nothing. */
  when(what: string): string | null {
    return this.#seen.get(what) ?? null;
  }

  get told(): readonly string[] {
    return [...this.#seen.keys()];
  }

  async close(): Promise<void> {
    await Promise.all([this.#relay.stop(), this.#worker.stop()]);
    await this.#project.dispose();
    await this.#database.dispose();
  }
}

const rabbit = await startRabbit();
const cases = SIZES.map(rows => new Case(rows));
try {
  await Promise.all(cases.map(one => one.open(rabbit.url)));
  await rabbit.kill();
  const from = performance.now();
  for (const one of cases) one.begin(from);
  for (const one of cases) await one.write();
  const over = new AbortController();
  const watching = cases.map(one => one.watch(over.signal));
  await wait(OUTAGE_MS - (performance.now() - from));
  await rabbit.start();
  const startedAt = ((performance.now() - from) / 1_000).toFixed(0);
  await Promise.all(cases.map(one => one.recover()));
  over.abort();
  await Promise.all(watching);
  console.log(`\nRabbitMQ was away for ${startedAt} s. Seconds after it was killed:\n`);
  console.log(`| what | ${SIZES.join(' rows | ')} rows |`);
  console.log(`| --- |${' --- |'.repeat(SIZES.length)}`);
  const all = new Set(cases.flatMap(({ told }) => told));
  for (const name of Object.keys(RULES)) all.add(`rule ${name} pending`).add(`rule ${name} fires`);
  for (const what of [...all].sort())
    console.log(`| ${what} | ${cases.map(one => one.when(what) ?? '–').join(' | ')} |`);
} finally {
  await Promise.all(cases.map(one => one.close().catch(() => undefined)));
  await rabbit.dispose();
}
