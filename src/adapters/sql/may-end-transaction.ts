const ENDING = /\b(commit|end|abort|rollback|prepare)\b/i;

/**
 * True for each text that ends a transaction of PostgreSQL, wherever in it the statement stands, and for some that do not
 * (`rollback to`, `case … end`): after those the server has to be asked.
 */
export const mayEndTransaction = (text: string): boolean => ENDING.test(text);
