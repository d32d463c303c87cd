import { describe, expect, it } from 'vitest';
import { createLogger, type LogLevel } from './logger.ts';

/** What a logger writes about this error. */
function logged(json: boolean, error: Error): string {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  createLogger({ level: 'info', json, write, now: () => 0 }).warn({ error }, 'task:failed');
  return lines.join('');
}

describe('an error that a handler has thrown', () => {
  it.each([true, false])('is logged with the frames of its stack (json: %s)', json => {
    expect(logged(json, new Error('no'))).toMatch(/ at .*logger\.test\.ts:\d+:\d+/);
  });

  it('is logged with the stack of its cause in JSON lines', () => {
    const { error } = JSON.parse(
      logged(true, new Error('outer', { cause: new Error('inner') })),
    ) as {
      readonly error: { readonly cause: { readonly stack: string } };
    };
    expect(error.cause.stack).toMatch(/^Error: inner\n.*logger\.test\.ts/);
  });
});

describe('a line of our own log', () => {
  const lines = (level: LogLevel): string[] => {
    const written: string[] = [];
    const write = (line: string): void => void written.push(line);
    const log = createLogger({ level, json: true, write, now: () => 0 });
    log.debug({ tookMs: 0.1 + 0.2 }, 'debug');
    log.error({}, 'error');
    return written;
  };

  it('has its numbers rounded', () => {
    expect(lines('debug')[0]).toContain('"tookMs":0.3}');
  });

  it('is written from the level of the log on, and never if that is silent', () => {
    expect(lines('warn')).toHaveLength(1);
    expect(lines('silent')).toEqual([]);
  });
});
