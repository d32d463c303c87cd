import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createOutlast, startRelay, type Outlast } from '../../dist/index.js';
import type { MigratedDatabase } from './database.ts';

export interface RelayedOutlast {
  readonly outlast: Outlast<PoolClient>;
  dispose(): Promise<void>;
}

/** An Outlast on a database, with the broker that is given or none, and its relay running. */
export async function relayedOutlast(
  { url, pool }: MigratedDatabase,
  broker: { readonly broker?: string },
): Promise<RelayedOutlast> {
  const outlast = createOutlast({ database: url, adapter: fromPg(pool), ...broker });
  const relay = await startRelay(outlast);
  return {
    outlast,
    dispose: async () => {
      await relay.stop();
      await outlast.close();
    },
  };
}
