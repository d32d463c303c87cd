import type { CheckupTarget } from '../admin/doctor.ts';
import { parseAmqpUrl } from '../config/amqp-url.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { ledgerParts } from './messaging.ts';
import { ledgerIn, openDatabase, openLedger } from './openers.ts';

type RabbitConfig = Pick<ResolvedConfig, 'broker' | 'ledger' | 'worker' | 'database'>;

/** What a doctor looks at, where the broker is RabbitMQ. */
export function rabbitTargets(config: RabbitConfig): readonly CheckupTarget[] {
  const { broker, worker } = config;
  if (broker?.kind !== 'rabbitmq') return [];
  return [
    {
      target: 'broker',
      check: async () => {
        const { checkRabbit } = await import('../adapters/rabbitmq/rabbitmq-checkup.ts');
        const hosts = parseAmqpUrl(broker.url, 'broker');
        const { taken, paused, known } = await ordersOf(config);
        const queues = Object.keys(worker.queues);
        const others = [...new Set([...taken, ...known])].filter(queue => !queues.includes(queue));
        return await checkRabbit({ hosts, queues, others, taken, paused });
      },
    },
  ];
}

interface Orders {
  readonly taken: ReadonlySet<string>;
  readonly paused: ReadonlySet<string>;
  /** Where tasks have ended. */
  readonly known: readonly string[];
}

/** A ledger that does not answer has its own check; then RabbitMQ alone says who takes from its queues. */
async function ordersOf(config: RabbitConfig): Promise<Orders> {
  try {
    return await onLedger(config, async ({ control, reads }) => ({
      taken: new Set((await control.consumers()).flatMap(({ queues }) => queues)),
      paused: new Set(await control.paused()),
      known: (await reads.totals()).map(({ queue }) => queue),
    }));
  } catch {
    return { taken: new Set(), paused: new Set(), known: [] };
  }
}

interface Ledger {
  readonly control: ControlStore;
  readonly reads: LedgerReads;
}

async function onLedger<T>(config: RabbitConfig, ask: (ledger: Ledger) => Promise<T>): Promise<T> {
  const parts = ledgerParts(config);
  const opened =
    parts === null
      ? await openDatabase(config.database, { embedded: 'existing', poolSize: 1 })
      : await openLedger({ ...parts, generations: null, beside: null });
  try {
    return await ask('control' in opened ? opened : ledgerIn(opened));
  } finally {
    await opened.close();
  }
}
