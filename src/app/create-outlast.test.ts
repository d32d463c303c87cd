import { afterEach, describe, expect, it, vi } from 'vitest';
import { createOutlast } from './create-outlast.ts';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

/** What an instance writes to stderr about a configuration that production would regret. */
function written(level: string | undefined): string {
  vi.stubEnv('NODE_ENV', 'production');
  vi.stubEnv('OUTLAST_DATABASE_URL', undefined);
  vi.stubEnv('OUTLAST_LOG_LEVEL', level);
  const lines: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation(line => lines.push(String(line)) > 0);
  createOutlast();
  return lines.join('');
}

describe('an instance without a log', () => {
  it('writes warnings to stderr', () => {
    expect(written(undefined)).toMatch(/warn {2}no database is named/);
  });

  it('writes nothing below the level of its variable', () => {
    expect(written('error')).toBe('');
  });
});
