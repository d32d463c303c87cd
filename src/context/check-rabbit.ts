import type { CheckupTarget } from '../admin/doctor.ts';
import { parseAmqpUrl } from '../config/amqp-url.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { ControlStore } from '../ledger/control-store.ts';
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
        const { taken, paused } = await ordersOf(config);
        return await checkRabbit({ hosts, queues: Object.keys(worker.queues), taken, paused });
      },
    },
  ];
}

interface Orders {
  readonly taken: ReadonlySet<string>;
  readonly paused: ReadonlySet<string>;
}

/** A ledger that does not answer has its own check; then RabbitMQ alone says who takes from its queues. */
async function ordersOf(config: RabbitConfig): Promise<Orders> {
  try {
    return await onControl(config, async control => {
      const consumers = await control.consumers();
      return {
        taken: new Set(consumers.flatMap(({ queues }) => queues)),
        paused: new Set(await control.paused()),
      };
    });
  } catch {
    return { taken: new Set(), paused: new Set() };
  }
}

async function onControl<T>(
  config: RabbitConfig,
  ask: (control: ControlStore) => Promise<T>,
): Promise<T> {
  const parts = ledgerParts(config);
  const opened =
    parts === null
      ? await openDatabase(config.database, { embedded: 'existing', poolSize: 1 })
      : await openLedger({ ...parts, generations: null, beside: null });
  try {
    const control =
      'control' in opened ? opened.control : ledgerIn(opened, { movesIntoLedger: false }).control;
    return await ask(control);
  } finally {
    await opened.close();
  }
}
