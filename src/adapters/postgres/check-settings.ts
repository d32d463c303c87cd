import { outlastError } from '../../errors/error.ts';
import type { SqlRow } from '../sql/sql-database.ts';

/** A setting of the database, of the role or of the pooler in front of it that we cannot work under. */
export interface BadSetting {
  readonly setting: string;
  readonly value: string;
  readonly message: string;
  readonly hint: string;
  /** False: reads still work, so only writes are refused, by the server. */
  readonly isRefused: boolean;
}

/** The columns that are checked. */
export const SETTING_COLUMNS = `current_setting('array_nulls') as array_nulls,
  current_setting('session_replication_role') as replication_role,
  current_setting('default_transaction_read_only') as read_only`;

/**
 * Checked when a database is opened. Every other setting that could change how we read or compare is either set for
 * our sessions or does not matter to our statements: `test/conformance/hostile-postgres.test.ts`.
 */
export function findBadSetting(row: SqlRow): BadSetting | null {
  if (row['array_nulls'] === 'off')
    return bad('array_nulls', 'off', 'lists lose their empty places on the way to the server');
  if (row['replication_role'] === 'replica')
    return bad('session_replication_role', 'replica', 'no trigger runs, so nothing would follow');
  if (row['read_only'] === 'on')
    return {
      ...bad('default_transaction_read_only', 'on', 'it can only be read'),
      isRefused: false,
    };
  return null;
}

export function refuseBadSetting(row: SqlRow): void {
  const found = findBadSetting(row);
  if (!found?.isRefused) return;
  const { setting, value, message, hint } = found;
  throw outlastError('ERR_DATABASE_SETTING', { message, hint, fields: { setting, value } });
}

function bad(setting: string, value: string, effect: string): BadSetting {
  return {
    setting,
    value,
    message: `the database is used with ${setting} = ${value}: ${effect}`,
    hint: `Look where it is set (select * from pg_db_role_setting) and reset it: ALTER DATABASE … RESET ${setting}, or ALTER ROLE … RESET ${setting}.`,
    isRefused: true,
  };
}
