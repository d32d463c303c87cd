/** The codes of operating systems, PostgreSQL's insufficient_privilege, and those of MySQL and MariaDB for tables and columns. */
const DENIED: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EPERM',
  '42501',
  'ER_TABLEACCESS_DENIED_ERROR',
  'ER_COLUMNACCESS_DENIED_ERROR',
  'ER_SPECIFIC_ACCESS_DENIED_ERROR',
]);

/** An operator has to grant a right; it is no bug of ours. */
export function isDenied(error: unknown): error is Error {
  return error instanceof Error && DENIED.has((error as { readonly code?: unknown }).code);
}
