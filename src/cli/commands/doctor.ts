import type { Command } from 'commander';
import { CHECK_LIMITS, type CheckLimits } from '../../telemetry/checkup.ts';
import { type DoctorReport, type CheckupTarget, examine } from '../../admin/doctor.ts';
import { durationMs } from '../../task/duration.ts';
import type { ResolvedConfig } from '../../config/config.ts';
import { type CommonOptions, addOutboxFlag, readContext } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import { type AddCommand, readDuration, readWhole } from '../flags.ts';
import type { Output } from '../output.ts';

interface Options extends CommonOptions {
  readonly maxClockSkew?: string;
  readonly maxTransactionAge?: string;
  readonly maxDeadTuples?: string;
  readonly maxPendingAge?: string;
  readonly maxOrphanAge?: string;
  readonly maxChordAge?: string;
  readonly strict?: boolean;
}

/** `outlast doctor`: is anything about to go wrong? */
export const addDoctor: AddCommand = (program, output, finish) => {
  addLimitFlags(addOutboxFlag(program.command('doctor')))
    .description(
      'look for what is wrong with databases, RabbitMQ and Redis: exit code 6 when something is',
    )
    .option('--strict', 'advice counts as a problem')
    .action(async (options: Options) => {
      const { config } = (await readContext(options)).context;
      const limits = readLimits(options, config.resurrector);
      const patients = await targetsOf(config, options, limits);
      const isStrict = options.strict ?? false;
      const report = await examine(patients, config.warnings, { isStrict });
      if (options.json) output.json(report);
      else print(report, output);
      finish(EXIT_OF[report.status]);
    });
};

const EXIT_OF = {
  ok: EXIT.done,
  unhealthy: EXIT.unhealthy,
  unreachable: EXIT.unreachable,
} as const;

const seconds = (ms: number): string => `(default: ${ms / 1_000} s)`;

function addLimitFlags(command: Command): Command {
  const { maxClockSkewMs, maxTransactionMs, maxDeadTuples, maxPendingMs, maxOrphanMs, maxChordMs } =
    CHECK_LIMITS;
  return command
    .option('--max-clock-skew <time>', `between our clock and theirs ${seconds(maxClockSkewMs)}`)
    .option(
      '--max-transaction-age <time>',
      `how long a transaction may hold back vacuum ${seconds(maxTransactionMs)}`,
    )
    .option(
      '--max-dead-tuples <n>',
      `how many dead rows a table may have (default: ${maxDeadTuples})`,
    )
    .option('--max-pending-age <time>', `how long a row may be due ${seconds(maxPendingMs)}`)
    .option(
      '--max-orphan-age <time>',
      `how long what its owner lost may lie about ${seconds(maxOrphanMs)}`,
    )
    .option('--max-chord-age <time>', `how long a chord may be open ${seconds(maxChordMs)}`);
}

function readLimits(
  options: Options,
  { intervalMs, afterDelayMs }: ResolvedConfig['resurrector'],
): CheckLimits {
  const time = (text: string | undefined, flag: string, defaultMs: number): number =>
    text === undefined ? defaultMs : Math.round(durationMs(readDuration(text, flag), flag));
  const {
    maxClockSkew,
    maxTransactionAge,
    maxDeadTuples,
    maxPendingAge,
    maxOrphanAge,
    maxChordAge,
  } = options;
  return {
    maxClockSkewMs: time(maxClockSkew, '--max-clock-skew', CHECK_LIMITS.maxClockSkewMs),
    maxTransactionMs: time(
      maxTransactionAge,
      '--max-transaction-age',
      CHECK_LIMITS.maxTransactionMs,
    ),
    maxDeadTuples:
      maxDeadTuples === undefined
        ? CHECK_LIMITS.maxDeadTuples
        : readWhole(maxDeadTuples, '--max-dead-tuples', 0, 999_999_999),
    maxPendingMs: time(maxPendingAge, '--max-pending-age', CHECK_LIMITS.maxPendingMs),
    maxOrphanMs: time(maxOrphanAge, '--max-orphan-age', CHECK_LIMITS.maxOrphanMs),
    // A slow resurrector is not a missing one.
    maxUnreapedMs: Math.max(CHECK_LIMITS.maxUnreapedMs, 2 * Math.max(intervalMs, afterDelayMs)),
    maxChordMs: time(maxChordAge, '--max-chord-age', CHECK_LIMITS.maxChordMs),
  };
}

/** The database and every outbox in a separate database, or only the outbox that was asked for. */
async function targetsOf(
  config: ResolvedConfig,
  { outbox }: Options,
  limits: CheckLimits,
): Promise<readonly CheckupTarget[]> {
  const { checkDatabase } = await import('../../context/check-redis.ts');
  const { redisTargets } = await import('../../context/check-redis.ts');
  const { rabbitTargets } = await import('../../context/check-rabbit.ts');
  const named = Object.entries(config.outboxes).map(([name, target]) => ({
    name,
    target: `outboxes.${name}`,
    check: () => checkDatabase(target, limits),
  }));
  if (outbox !== undefined) return named.filter(({ name }) => name === outbox);
  return [
    { target: 'database', check: () => checkDatabase(config.database, limits, config) },
    ...rabbitTargets(config),
    ...redisTargets(config, limits),
    ...named,
  ];
}

function print({ status, checks }: DoctorReport, output: Output): void {
  for (const check of checks) {
    const head = `${check.status.padEnd(8)} ${check.target} ${check.name}: `;
    output.line(`${head}${check.message}`);
    if (check.advice !== null) output.line(`${' '.repeat(9)}${check.advice}`);
  }
  output.line(status === 'ok' ? 'all is well' : `the verdict: ${status}`);
}
