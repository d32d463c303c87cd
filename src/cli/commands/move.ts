import { outlastError } from '../../errors/error.ts';
import { openContext, type Context } from '../../context/context.ts';
import { moveTier, type MoveParts, type MoveReport } from '../../admin/move-tier.ts';
import { takesTasks, type TierMemory } from '../../ledger/tier-store.ts';
import { systemClock } from '../../runtime/runtime.ts';
import { readContext, withContext, type CommandContext, type CommonOptions } from '../context.ts';
import { EXIT } from '../exit-codes.ts';
import type { AddCommand } from '../flags.ts';
import type { Output } from '../output.ts';

interface Options extends CommonOptions {
  readonly fromBroker?: string;
  readonly fromLedger?: string;
  readonly queues?: string;
}

/** `outlast move`: moves tasks that remain in a broker or ledger of the old configuration through the outbox to the new one. */
export const addMove: AddCommand = (program, output, finish) => {
  program
    .command('move')
    .description('move tasks and dead letters out of a broker or ledger that is not configured now')
    .option('--from-broker <url>', 'the broker of before (left out: the database)')
    .option('--from-ledger <url>', 'the ledger of before (left out: as without a setting)')
    .option('--queues <names>', 'queues of that broker (default: those of the worker)')
    .action(async (options: Options) => {
      const report = await move(await readContext(options), options);
      if (options.json) output.json(report);
      else print(report, output);
      finish(EXIT_OF[report.status]);
    });
};

const EXIT_OF = { done: EXIT.done, busy: EXIT.conflict, partly: EXIT.partly } as const;

async function move(command: CommandContext, options: Options): Promise<MoveReport> {
  const { config, redact } = command.context;
  const old = contextBefore(command, options);
  const { config: before } = old;
  const { servedBy } = await import('../../context/tier-memory.ts');
  const [[broker, ledger], [oldBroker, oldLedger]] = [servedBy(config), servedBy(before)];
  const [leavesBroker, leavesLedger] = [
    broker.store !== oldBroker.store,
    ledger.store !== oldLedger.store,
  ];
  if (!leavesBroker && !leavesLedger) throw nothingToMove();
  return await withContext(old, async () => {
    const stores = await old.stores();
    const { tiers } = stores;
    if (tiers === null) throw takesNone();
    return await moveTier({
      old: {
        broker: leavesBroker && before.broker !== null ? stores.broker : null,
        ledger: stores.ledger,
        reads: stores.ledgerReads,
        evacuation: leavesLedger ? stores.evacuation : null,
      },
      // What is empty can be left behind anywhere.
      tiers: takesTasks(tiers) ? tiers : refusing(tiers),
      queues: options.queues?.split(',') ?? Object.keys(before.worker.queues),
      leaving: [...(leavesBroker ? [oldBroker] : []), ...(leavesLedger ? [oldLedger] : [])],
      clock: systemClock,
      faultPoint: command.context.runtime.faultPoint,
      redact,
      keyring: config.keyring,
    });
  });
}

/** The current context with the previous broker and ledger; flags and variables name them. */
function contextBefore({ loaded, context }: CommandContext, options: Options): Context {
  const { OUTLAST_BROKER_URL: _, OUTLAST_LEDGER_URL: __, ...env } = process.env;
  const { broker: ___, ledger: ____, ...file } = loaded.config;
  // A flag is visible in the process list, with the password of its URL.
  const { OUTLAST_FROM_BROKER_URL: broker, OUTLAST_FROM_LEDGER_URL: ledger } = process.env;
  const { fromBroker = broker, fromLedger = ledger } = options;
  const before = {
    ...file,
    ...(fromBroker === undefined ? {} : { broker: fromBroker }),
    ...(fromLedger === undefined ? {} : { ledger: fromLedger }),
  };
  const { folder } = loaded;
  const { log } = context;
  return openContext(before, {
    env,
    flags: { folder },
    makeLog: () => log,
    isWarned: true,
    embedded: 'existing',
  });
}

function nothingToMove(): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message: 'broker and ledger are what they were before',
    hint: 'Change the configuration first; --from-broker and --from-ledger say what it was.',
    fields: { options: ['--from-broker', '--from-ledger'] },
  });
}

/** Takes nothing: the move fails with the first task, and leaves that where it is. */
function refusing(tiers: TierMemory): MoveParts['tiers'] {
  return {
    moveIn: () => Promise.reject(takesNone()),
    endMove: () => Promise.resolve(),
    forget: store => tiers.forget(store),
  };
}

function takesNone(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: 'tasks cannot be moved through an outbox in MySQL or MariaDB',
    hint: 'Run workers with the previous configuration until `outlast stats` shows that nothing waits; then repeat this.',
    fields: { option: 'database' },
  });
}

function print({ status, workers, left, ...moved }: MoveReport, output: Output): void {
  if (status === 'busy')
    return output.note(
      `${workers} workers of that ledger are alive: stop them first, and wait for their lease`,
    );
  output.line(
    `moved  messages ${moved.messages}  tasks ${moved.tasks}  dead letters ${moved.deadLetters}`,
  );
  if (status === 'done') return output.line('nothing is left there');
  output.note(
    `left there: ${left.tasks} running tasks, ${left.dead} tasks that cannot be read, ${left.followUps} follow-ups, ${left.chords} open chords`,
  );
  output.note('Run a resurrector with the configuration of before, then move again.');
}
