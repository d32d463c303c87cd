import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../config/config.ts';
import { createRuntime } from '../runtime/create-runtime.ts';
import type { Logger } from './logger.ts';

/** A real pino as the log of a configuration, and the lines it wrote. */
function setup(level: string) {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void =>
    void lines.push(JSON.parse(line) as Record<string, unknown>);
  const log: Logger = pino({ level, base: null, timestamp: false }, { write });
  const { log: taken } = resolveConfig({ log });
  if (taken === null) throw new Error('the logger was not taken');
  return { lines, log: taken };
}

const ref = { id: 'a', name: 'shop.pay', queue: 'default' };

describe('a pino logger as `log`', () => {
  it('gets events as lines, with their names as messages and at their levels', () => {
    const { lines, log } = setup('info');
    const { emit } = createRuntime(log, () => undefined);
    const error = new TypeError('no funds');
    const failure = { where: 'worker', attempt: 1, durationMs: 2, error } as const;
    emit('task:failed', { ...ref, ...failure });
    const last = { type: 'TypeError', message: 'no funds' };
    const death = { where: 'worker', reason: 'ERR_ATTEMPTS_SPENT', error: last } as const;
    emit('task:dead-lettered', { ...ref, ...death });
    emit('task:duplicate', ref);
    expect(lines).toMatchObject([
      { level: 40, msg: 'task:failed', name: 'shop.pay' },
      { level: 50, msg: 'task:dead-lettered', error: { message: 'no funds' } },
    ]);
  });

  it('binds the fields of a child', () => {
    const { lines, log } = setup('debug');
    log.child({ task: 'a' }).debug({ page: 3 }, 'halfway');
    expect(lines).toEqual([{ level: 20, task: 'a', page: 3, msg: 'halfway' }]);
  });
});
