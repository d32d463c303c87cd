import { outlastError } from '../errors/error.ts';

/** As in `next` of a page: the instant of a death and an id. */
const LETTER_CURSOR = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z \S/;
/** A row number, well within 64 bits. */
const ROW_CURSOR = /^\d{1,18}$/;

export function readLetterCursor(cursor: string | undefined): string | null {
  return checkCursor(cursor, LETTER_CURSOR, 'dead letters');
}

export function readRowCursor(cursor: string | undefined): string | null {
  return checkCursor(cursor, ROW_CURSOR, 'the outbox');
}

function checkCursor(cursor: string | undefined, form: RegExp, what: string): string | null {
  if (cursor === undefined) return null;
  const isWell = form.test(cursor) && !Number.isNaN(Date.parse(cursor.split(' ')[0] ?? ''));
  if (isWell) return cursor;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `${JSON.stringify(cursor)} is not where a page of ${what} ended`,
    hint: 'Give `next` of the page before, as it was.',
    fields: { option: 'cursor' },
  });
}

export function readLimit(limit: number): number {
  return readCount(limit, 'limit', 1_000);
}

export function readCount(count: number, option: string, most: number): number {
  if (Number.isInteger(count) && count >= 1 && count <= most) return count;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is ${String(count)}`,
    hint: `Give a whole number from 1 to ${most}.`,
    fields: { option },
  });
}

/** What stands for the target of an objective: as in the contract, all and nothing are no targets. */
export function readShare(target: number | undefined): { readonly target?: number } {
  if (target === undefined) return {};
  if (target > 0 && target < 1) return { target };
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`target\` is ${String(target)}`,
    hint: 'Give a share between 0 and 1, such as 0.999.',
    fields: { option: 'target' },
  });
}
