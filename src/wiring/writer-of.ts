import { MysqlOutboxWriter } from '../adapters/mysql/mysql-outbox-writer.ts';
import { PostgresOutboxWriter } from '../adapters/postgres/postgres-outbox-writer.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import { outlastError } from '../errors/error.ts';
import type { OutboxWriter } from '../outbox/outbox-writer.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import { systemClock } from '../runtime/clock.ts';

export type Dialect = TransactionAdapter<never>['dialect'];

export function dialectOf({ kind }: OutboxTarget): Dialect {
  return kind === 'mysql' ? 'mysql' : 'postgres';
}

/** Writes through a library in the words of its database. */
export function writerOf<Tx>(adapter: TransactionAdapter<Tx>): OutboxWriter<Tx> {
  return adapter.dialect === 'mysql'
    ? new MysqlOutboxWriter(adapter)
    : new PostgresOutboxWriter(adapter, systemClock);
}

const NAMES = { postgres: 'PostgreSQL', mysql: 'MySQL or MariaDB' } as const;

/** Tasks written through one database and looked for in another would never be found. */
export function refuseOtherDialect(adapter: Dialect, outbox: Dialect): void {
  if (adapter === outbox) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `the adapter is for ${NAMES[adapter]}, and this outbox is in ${NAMES[outbox]}`,
    hint: 'Give createOutlast an adapter on the database of its outbox; `outbox` names one of `outboxes`.',
    fields: { option: 'adapter' },
  });
}
