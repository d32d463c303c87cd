import { ok, problem, type Check } from '../telemetry/checkup.ts';
import type { ResolvedConfig } from '../config/config.ts';
import { outlastError } from '../errors/error.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import type { LeftBehind, ServedStore, TierMemory } from '../ledger/tier-store.ts';
import type { Context } from './context.ts';

type TierConfig = Pick<ResolvedConfig, 'broker' | 'ledger'>;

const IN_DATABASE = 'database';

/** The stores that a configuration names, as the database remembers them: by address, and without who connects. */
export function servedBy({ broker, ledger }: TierConfig): readonly [ServedStore, ServedStore] {
  return [
    { role: 'broker', store: broker === null ? IN_DATABASE : addressOf(broker.url) },
    { role: 'ledger', store: ledger.kind === 'database' ? IN_DATABASE : addressOf(ledger.url) },
  ];
}

function addressOf(url: string): string {
  return maskUrl(url)
    .replaceAll(/:\/\/[^@/]*@/g, '://')
    .replace(/\?.*$/, '');
}

/** What is, or may be, left in stores that are not configured any more, as sentences. */
export async function leftBehind(
  tiers: TierMemory | null,
  config: TierConfig,
): Promise<readonly string[]> {
  if (tiers === null) return [];
  const now = servedBy(config);
  const isNow = ({ role, store }: ServedStore): boolean =>
    now.some(one => one.role === role && one.store === store);
  const others = (await tiers.served()).filter(
    store => !isNow(store) && store.store !== IN_DATABASE,
  );
  const sentences = others.map(
    ({ role, store }) => `${store} was the ${role}, and it was never reported as empty`,
  );
  if (config.ledger.kind === 'database') return sentences;
  const left = await tiers.left();
  const isEmpty = Object.values(left).every(count => count === 0);
  return isEmpty ? sentences : [`the ledger in the database has ${told(left)}`, ...sentences];
}

function told({ tasks, dead, followUps, chords }: LeftBehind): string {
  return `${tasks} tasks that are not over, ${dead} dead letters, ${followUps} follow-ups and ${chords} open chords`;
}

/**
 * Refuses to put tasks into a ledger that no worker takes from: relays have taken those of this database to a broker, and this
 * process was not told of it.
 */
export async function refuseUntold(tiers: TierMemory | null, config: TierConfig): Promise<void> {
  if (config.broker !== null || tiers === null) return;
  const broker = (await tiers.served()).findLast(({ role }) => role === 'broker');
  if (broker === undefined || broker.store === IN_DATABASE) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `tasks of this database go to ${broker.store}, and no broker is configured here: a pushed task would never run`,
    hint: 'Set OUTLAST_BROKER_URL and OUTLAST_LEDGER_URL as for the workers, or send inside a transaction. If that broker is no longer used: npx outlast move.',
    fields: { option: 'broker' },
  });
}

const ADVICE =
  'Move it: npx outlast move --from-broker URL --from-ledger URL, with what the configuration said before.';

/** For a doctor. */
export async function checkTiers(tiers: TierMemory, config: TierConfig): Promise<Check> {
  const left = await leftBehind(tiers, config);
  if (left.length === 0) return ok('tiers', 'nothing is left in a store that is not configured');
  return problem('tiers', left.join('; '), ADVICE, { stores: left });
}

/** When a process begins to work: remembers its stores, and warns of what is left in others. Never in the way of work. */
export async function enterTier(context: Context): Promise<void> {
  const { config, log } = context;
  const { tiers } = await context.stores();
  if (tiers === null) return;
  try {
    await tiers.note(servedBy(config));
    for (const left of await leftBehind(tiers, config))
      log.warn({ advice: ADVICE }, `left in a store that is not configured: ${left}`);
  } catch (error) {
    log.warn({ error }, 'the database cannot be asked what other stores have');
  }
}
