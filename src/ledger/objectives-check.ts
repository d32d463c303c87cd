import { advise, ok, problem, type Check } from '../telemetry/checkup.ts';
import { burnReport, type BurnStatus } from './burn-rate.ts';
import type { LedgerReads } from './ledger-reads.ts';

const MOST_NAMED = 10;

/** Objectives that use up their budget too fast. */
export async function checkObjectives(reads: Pick<LedgerReads, 'objectives'>): Promise<Check> {
  const { objectives } = burnReport(await reads.objectives());
  const at = (status: BurnStatus['status']): readonly BurnStatus[] =>
    objectives.filter(one => one.status === status);
  const [page, ticket] = [at('page'), at('ticket')];
  const details = { objectives: objectives.length, page: page.length, ticket: ticket.length };
  const burning = [...page, ...ticket];
  if (burning.length === 0) return ok('objectives', 'no objective burns', details);
  const named = burning
    .slice(0, MOST_NAMED)
    .map(({ task, objective }) => `${objective} of ${task}`);
  const message = `${burning.length} objectives use up their budget too fast: ${named.join(', ')}`;
  const report = page.length > 0 ? problem : advise;
  return report('objectives', message, 'See which windows: npx outlast slo.', details);
}
