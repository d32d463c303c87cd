const NAME = /^[A-Za-z_$][\w$.]{0,63}$/;

/** What may be shown of any error everywhere: its code or its class, never its text. */
export function errorName(error: unknown): string {
  const code = codeOf(error);
  if (code !== null) return code;
  const name: unknown = error instanceof Error ? error.name : typeof error;
  return typeof name === 'string' && NAME.test(name) ? name : 'unknown';
}

export function codeOf(error: unknown): string | null {
  const code: unknown = error instanceof Error ? (error as { code?: unknown }).code : null;
  return typeof code === 'string' && /^ERR_[A-Z_]{1,40}$/.test(code) ? code : null;
}
