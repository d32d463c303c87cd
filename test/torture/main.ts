import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { rabbitmqUrl, redisUrl, withDatabase } from '../support/servers.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { Torture, type TortureServers } from './torture.ts';

/** `npm run torture -- --tier redis --tasks 10000 --kills 30`: real processes, real kills, then the count. */
const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '10000' },
    kills: { type: 'string', default: '40' },
    crashes: { type: 'string', default: '0' },
    rate: { type: 'string', default: '250' },
    seed: { type: 'string', default: '1' },
    tier: { type: 'string', default: 'postgres' },
  },
});

const TIERS: Readonly<Record<string, () => Pick<TortureServers, 'broker' | 'ledger'>>> = {
  postgres: () => ({}),
  redis: () => ({ broker: redisUrl() }),
  rabbitmq: () => ({ broker: rabbitmqUrl() }),
  'rabbitmq+redis': () => ({ broker: rabbitmqUrl(), ledger: redisUrl() }),
};
const tier = TIERS[values.tier];
if (tier === undefined)
  throw new RangeError(`--tier is one of ${Object.keys(TIERS).join(', ')}, not ${values.tier}`);

const percentile = (sorted: readonly number[], share: number): string =>
  sorted.length === 0
    ? '-'
    : `${Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)} ms`;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
// This file is compiled to .build/test/torture/main.js.
const repo = fileURLToPath(new URL('../../../', import.meta.url)).replace(/\/$/, '');
const crashes = Number(values.crashes);
// A server of its own is stopped at once; the one of the run has other databases.
const server = crashes > 0 ? await startPostgres() : undefined;
const database = server
  ? { url: server.url, drop: () => server.dispose() }
  : await withDatabase('torture');
const plan = {
  tasks: Number(values.tasks),
  kills: Number(values.kills),
  crashes,
  rate: Number(values.rate),
  seed: Number(values.seed),
  healMs: 60_000,
  repo,
  say,
};
const servers = {
  database: database.url,
  queue: 'torture',
  ...tier(),
  ...(server ? { server } : {}),
};
const report = await new Torture(plan, servers).run();
await database.drop();

const sorted = report.recoveryMs.toSorted((a, b) => a - b);
const kills = Object.entries(report.kills)
  .map(([name, count]) => `${name} ${count}`)
  .join(', ');
say(
  `${values.tier}, seed ${plan.seed}: ${report.verdict.committed} tasks committed, ${report.rolledBack} rolled back, ${report.seconds.toFixed(1)} s`,
);
say(
  `SIGKILL ${Object.values(report.kills).reduce((sum, count) => sum + count, 0)} (${kills}), SIGSTOP past the lease ${report.pauses}, PostgreSQL stopped at once ${report.crashes}`,
);
say(`verdict ${JSON.stringify(report.verdict)}`);
say(
  `recovery after the kill of a worker process, ${sorted.length} tasks: p50 ${percentile(sorted, 0.5)}, p99 ${percentile(sorted, 0.99)}, max ${percentile(sorted, 1)}`,
);
say(
  report.violations.length === 0 ? 'no violation' : `VIOLATIONS: ${report.violations.join(', ')}`,
);
process.exitCode = report.violations.length === 0 ? 0 : 1;
