import type { PGlite, PGliteOptions, Results, Transaction } from '@electric-sql/pglite';
import { readBytea } from '../postgres/read-bytea.ts';
import type { SqlParam, SqlRow } from '../sql/sql-database.ts';

const BYTEA = 17;
const INT8 = 20;
const INT8_ARRAY = 1016;

/**
 * The same bytes as PGlite's own codec, fifteen times faster. Text passes unchanged, as in
 * other drivers. Nothing else is set on the handle: users of the raw one get PGlite's own types.
 */
export const BYTEA_CODEC: Pick<PGliteOptions, 'parsers' | 'serializers'> = {
  parsers: { [BYTEA]: text => new Uint8Array(readBytea(text)) },
  serializers: {
    [BYTEA]: (value: unknown) => {
      if (typeof value === 'string') return value;
      if (!(value instanceof Uint8Array)) throw new TypeError('bytea takes a Uint8Array');
      return `\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`;
    },
  },
};

/**
 * Runs one statement. Without `params` the text may hold several commands, as in a migration, and
 * the rows are those of the last; PGlite takes only one command with parameters.
 */
export async function runStatement(
  runner: Pick<PGlite | Transaction, 'query' | 'exec'>,
  text: string,
  params: readonly SqlParam[] | undefined,
): Promise<readonly SqlRow[]> {
  if (params === undefined) {
    const last = (await runner.exec(text)).at(-1);
    return last === undefined ? [] : readRows(last);
  }
  return readRows(await runner.query<Record<string, unknown>>(text, [...params]));
}

/**
 * PGlite reads `int8` as a number or, beyond 2^53, as a bigint: both turn into text without loss.
 */
function readRows({ fields, rows }: Results<Record<string, unknown>>): readonly SqlRow[] {
  const large = fields.filter(({ dataTypeID }) => [INT8, INT8_ARRAY].includes(dataTypeID));
  for (const row of rows) {
    for (const { name } of large) row[name] = int8ToText(row[name]);
  }
  return rows;
}

function int8ToText(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(int8ToText);
  return typeof value === 'number' || typeof value === 'bigint' ? value.toString() : value;
}
