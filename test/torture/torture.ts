import { Pool, type PoolClient } from 'pg';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import type { Outlast } from '../../src/app/outlast.ts';
import type { TaskCall } from '../../src/task/define-task.ts';
import { openContext } from '../../src/context/context.ts';
import { enterTier } from '../../src/context/tier-memory.ts';
import type { Stores } from '../../src/context/stores.ts';
import { BOOKS, check, tellLedger, VIOLATIONS, type Verdict } from './checker.ts';
import { Fleet, type Verb } from './fleet.ts';
import type { OwnPostgres } from '../support/postgres-server.ts';

export interface TorturePlan {
  readonly tasks: number;
  readonly kills: number;
  /** How often the database server is stopped at once; it must be given then. */
  readonly crashes?: number;
  /** Tasks per second at which the producer works. */
  readonly rate: number;
  readonly seed: number;
  /** How long everything may take to settle after the last fault. */
  readonly healMs: number;
  readonly repo: string;
  readonly say: (line: string) => void;
}

/** Where everything is. Without a broker all of it is in the database. */
export interface TortureServers {
  readonly database: string;
  readonly broker?: string;
  /** Left out: that of the broker if it is Redis, else the database. */
  readonly ledger?: string;
  readonly queue: string;
  /** The server of the database, if it belongs to this run. */
  readonly server?: Pick<OwnPostgres, 'crash' | 'start'>;
}

function variablesOf({ database, broker, ledger, queue }: TortureServers): Record<string, string> {
  return {
    OUTLAST_DATABASE_URL: database,
    TORTURE_QUEUE: queue,
    ...(broker === undefined ? {} : { OUTLAST_BROKER_URL: broker }),
    ...(ledger === undefined ? {} : { OUTLAST_LEDGER_URL: ledger }),
  };
}

export interface TortureReport {
  readonly verdict: Verdict;
  readonly violations: readonly string[];
  readonly kills: Readonly<Record<string, number>>;
  readonly pauses: number;
  readonly crashes: number;
  readonly rolledBack: number;
  readonly recoveryMs: readonly number[];
  readonly seconds: number;
}

const LEDGERS = [
  'create table led_commit (task_id text primary key, follows boolean not null)',
  'create table led_exec (task_id text not null, epoch bigint not null, pid int not null, at timestamptz not null default clock_timestamp())',
  'create table led_effect (task_id text not null, epoch bigint not null, at timestamptz not null default clock_timestamp())',
  'create table led_follow (parent text not null, task_id text not null)',
  ...BOOKS,
];

/** A small generator that a seed replays; the processes it torments are not so obedient. */
function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

/** Torments a fleet of real processes while a producer commits and rolls back; then counts. */
export class Torture {
  readonly #plan: TorturePlan;
  readonly #servers: TortureServers;
  readonly #pool: Pool;
  readonly #fleet: Fleet;
  readonly #random: () => number;
  readonly #kills: Record<string, number> = { relay: 0, worker: 0, resurrector: 0, child: 0 };
  readonly #killedAt = new Map<number, number>();
  #pauses = 0;
  #crashes = 0;
  #rolledBack = 0;
  /** Tasks whose COMMIT was answered. */
  readonly #acknowledged: string[] = [];
  #isProducing = true;

  constructor(plan: TorturePlan, servers: TortureServers) {
    this.#plan = plan;
    this.#servers = servers;
    this.#random = mulberry(plan.seed);
    this.#pool = new Pool({ connectionString: servers.database, max: 5 });
    this.#pool.on('error', () => undefined);
    this.#fleet = new Fleet(variablesOf(servers), plan.repo);
  }

  async run(): Promise<TortureReport> {
    const startedAt = performance.now();
    await this.#prepare();
    const context = openContext({}, { env: variablesOf(this.#servers) });
    const stores = await context.stores();
    // As `outlast migrate` does: the producer knows only the database.
    await enterTier(context);
    for (const verb of [
      'relay',
      'relay',
      'worker',
      'worker',
      'resurrector',
      'resurrector',
    ] as const)
      this.#fleet.start(verb);
    try {
      await Promise.all([this.#produce(), this.#torment(), this.#crashServer()]);
      await this.#heal(stores);
      await tellLedger(this.#pool, stores.ledgerReads);
      const verdict = await check(this.#pool, this.#acknowledged);
      const recoveryMs = await this.#recoveries();
      const violations = VIOLATIONS.filter(name => verdict[name] !== 0);
      const seconds = (performance.now() - startedAt) / 1_000;
      return {
        verdict,
        violations,
        kills: this.#kills,
        pauses: this.#pauses,
        crashes: this.#crashes,
        rolledBack: this.#rolledBack,
        recoveryMs,
        seconds,
      };
    } finally {
      await this.#fleet.stop();
      await context.close();
      await this.#pool.end();
    }
  }

  async #prepare(): Promise<void> {
    const db = await PgDatabase.open({
      url: this.#servers.database,
      poolSize: 1,
      queryTimeoutMs: 30_000,
    });
    await migrate(db);
    await db.close();
    for (const statement of LEDGERS) await this.#pool.query(statement);
  }

  /** Order and task in one transaction; a sixth of them is rolled back and must never be seen. */
  async #produce(): Promise<void> {
    const { database, queue } = this.#servers;
    const outlast = createOutlast({ database, adapter: fromPg(this.#pool) });
    const effect = task('torture.effect', {
      input: unchecked<{ n: number; workMs: number; follows: boolean }>(),
      result: unchecked<{ n: number }>(),
      queue,
    });
    const startedAt = performance.now();
    let committed = 0;
    while (committed < this.#plan.tasks) {
      const n = Math.min(1 + Math.floor(this.#random() * 40), this.#plan.tasks - committed);
      const calls = Array.from({ length: n }, (_, index) =>
        effect.with({ n: index, workMs: 20 + this.#random() * 60, follows: this.#random() < 0.2 }),
      );
      const isRolledBack = this.#random() < 1 / 6;
      try {
        const ids = await this.#sendAll(outlast, calls, isRolledBack);
        if (!isRolledBack) this.#acknowledged.push(...ids);
      } catch (error) {
        // Whether it was committed is in the books, in the same transaction.
        if (this.#servers.server === undefined) throw error;
      }
      if (isRolledBack) this.#rolledBack += n;
      else committed += n;
      await pause(
        Math.max(0, startedAt + (committed / this.#plan.rate) * 1_000 - performance.now()),
      );
    }
    this.#isProducing = false;
    await outlast.close();
  }

  async #sendAll(
    outlast: Outlast<PoolClient>,
    calls: readonly TaskCall[],
    isRolledBack: boolean,
  ): Promise<readonly string[]> {
    const client = await this.#pool.connect();
    let broken: Error | undefined;
    const onError = (error: Error): void => void (broken = error);
    client.on('error', onError);
    try {
      await client.query('begin');
      const ids = (await outlast.sendMany(client, calls)).map(({ id }) => id);
      const follows = calls.map(call => (call.input as { follows: boolean }).follows);
      await client.query('insert into led_commit select * from unnest($1::text[], $2::boolean[])', [
        ids,
        follows,
      ]);
      await client.query(isRolledBack ? 'rollback' : 'commit');
      return ids;
    } catch (error) {
      broken = error as Error;
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  }

  /** Stops the server of the database at once, again and again while there is load, and starts it a little later. */
  async #crashServer(): Promise<void> {
    const { crashes = 0, tasks, rate } = this.#plan;
    const gapMs = ((tasks / rate) * 1_000) / (crashes + 2);
    while (this.#crashes < crashes) {
      await pause(gapMs * (0.5 + this.#random()));
      await this.#servers.server?.crash();
      this.#crashes += 1;
      await pause(500 * this.#random());
      await this.#servers.server?.start();
    }
  }

  /** Kills until the plan is fulfilled and the producer is done: half of the time a worker process in mid-task. */
  async #torment(): Promise<void> {
    if (this.#plan.kills === 0) return;
    const gapMs = ((this.#plan.tasks / this.#plan.rate) * 1_000) / (this.#plan.kills + 2);
    await pause(Math.min(2_000, gapMs * 2));
    let faults = 0;
    while (faults < this.#plan.kills || this.#isProducing) {
      await pause(gapMs * (0.5 + this.#random()));
      const draw = this.#random();
      if (draw < 0.5) await this.#hitChild('SIGKILL');
      else if (draw < 0.6) await this.#hitChild('SIGSTOP');
      else
        this.#killMember(
          (['relay', 'worker', 'resurrector'] as const)[Math.floor(this.#random() * 3)] as Verb,
        );
      faults = Object.values(this.#kills).reduce((sum, count) => sum + count, 0);
    }
  }

  #killMember(verb: Verb): void {
    const candidates = this.#fleet.members.filter(
      member => member.verb === verb && member.process.pid !== undefined,
    );
    const member = candidates[Math.floor(this.#random() * candidates.length)];
    if (member?.process.kill('SIGKILL')) this.#kills[verb] = (this.#kills[verb] ?? 0) + 1;
  }

  /** A child of a supervisor, found by what its handlers write: it has begun tasks just now. */
  async #hitChild(signal: 'SIGKILL' | 'SIGSTOP'): Promise<void> {
    const { rows } = await this.#pool.query<{ pid: number }>(
      `select distinct pid from led_exec where at > clock_timestamp() - interval '100 ms'`,
    );
    const pid = rows[Math.floor(this.#random() * rows.length)]?.pid;
    if (pid === undefined) return;
    const { rows: clock } = await this.#pool.query<{ ms: string }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::text as ms',
    );
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    if (signal === 'SIGKILL') {
      this.#kills['child'] = (this.#kills['child'] ?? 0) + 1;
      this.#killedAt.set(pid, Number(clock[0]?.ms));
      return;
    }
    this.#pauses += 1;
    // Twice the lease, so that it wakes up after others have taken its tasks.
    setTimeout(() => {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // It was killed while it was stopped.
      }
    }, 10_000);
  }

  /** Until nothing is on its way any more: in the outbox, with the broker, in the ledger, or about to follow. */
  async #heal({ ledger, ledgerReads }: Stores): Promise<void> {
    const endsAt = performance.now() + this.#plan.healMs;
    for (;;) {
      const { rows } = await this.#pool.query<{ rows: string; tasks: string }>(
        `select (select count(*) from outlast_outbox)::text as rows,
          (select count(*) + count(*) filter (where follows) from led_commit)::text as tasks`,
      );
      const { tasks } = await ledgerReads.sample(0);
      const over = tasks.done + tasks.dead;
      const following = (await ledger.after.list(0, 1)).length;
      const open = Number(rows[0]?.rows) + tasks.waiting + tasks.running + following;
      if (open === 0 && over >= Number(rows[0]?.tasks)) return;
      if (performance.now() > endsAt)
        return this.#plan.say(`not settled: ${open} are open, ${over} of ${rows[0]?.tasks} over`);
      await pause(100);
    }
  }

  /** From the kill of a worker process to the next run of each task it had. */
  async #recoveries(): Promise<readonly number[]> {
    const { rows } = await this.#pool.query<{ pid: number; ms: string; next: string }>(
      // Only runs that the ledger took away: one that failed by itself waits for its backoff instead.
      `with e as (
         select task_id, epoch, pid, extract(epoch from at) * 1000 as ms,
           lead(extract(epoch from at) * 1000) over (partition by task_id order by epoch) as next
         from led_exec)
       select e.pid, e.ms::text, e.next::text from e
       where e.next is not null and exists
         (select 1 from led_line l where l.task_id = e.task_id and l.epoch = e.epoch and l.step = 'reaped')`,
    );
    return rows.flatMap(({ pid, ms, next }) => {
      const killedAt = this.#killedAt.get(pid);
      if (killedAt === undefined || Number(ms) > killedAt || Number(next) < killedAt) return [];
      return [Number(next) - killedAt];
    });
  }
}
