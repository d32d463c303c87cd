import {
  compareLetters,
  cursorAfter,
  readCursor,
  type DeadLetterDetails,
  type DeadLetterPage,
  type DeadLetterSummary,
  type LetterPageRequest,
} from '../../ledger/dead-letter.ts';
import { globPattern } from '../../task/glob.ts';

/** One page of letters, in the requested order. */
export function pageOf(
  letters: readonly DeadLetterDetails[],
  { limit, cursor, order, taskName }: LetterPageRequest,
): DeadLetterPage {
  const pattern = globPattern(taskName ?? '*');
  const sign = order === 'newest' ? -1 : 1;
  const start = cursor === null ? null : readCursor(cursor);
  const all = letters
    .filter(({ name }) => pattern.test(name))
    .filter(letter => start === null || sign * compareLetters(letter, start) > 0)
    .sort((a, b) => sign * compareLetters(a, b));
  const items = all.slice(0, limit).map(summaryOf);
  const last = items.at(-1);
  return { items, next: all.length > limit && last ? cursorAfter(last) : null };
}

function summaryOf(letter: DeadLetterDetails): DeadLetterSummary {
  const {
    body: _,
    options: __,
    isRedacted: ___,
    expiresAt: ____,
    history: _____,
    ...summary
  } = letter;
  return summary;
}
