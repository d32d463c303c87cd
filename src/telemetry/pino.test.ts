import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../config/config.ts';
import { createRuntime } from '../runtime/create-runtime.ts';
import { Events } from './events.ts';
import { type Logger, silentLogger } from './logger.ts';

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

  it('says which events would be heard, so that those of every task are made only then', () => {
    const events = new Events(() => undefined);
    const { emit } = createRuntime(setup('info').log, events.emit);
    expect(emit.isHeard?.('task:failed')).toBe(true);
    expect(emit.isHeard?.('task:done')).toBe(false);
    const undo = events.on('task:done', () => undefined);
    expect(emit.isHeard?.('task:done')).toBe(true);
    undo();
    expect(emit.isHeard?.('task:done')).toBe(false);
    const talkative = createRuntime(setup('debug').log, events.emit);
    expect(talkative.emit.isHeard?.('task:done')).toBe(true);
    const plain = Object.fromEntries(
      Object.entries(silentLogger).filter(([name]) => name !== 'isLevelEnabled'),
    );
    expect(createRuntime(plain as unknown as Logger, events.emit).emit.isHeard?.('task:done')).toBe(
      true,
    );
  });

  it('binds the fields of a child', () => {
    const { lines, log } = setup('debug');
    log.child({ task: 'a' }).debug({ page: 3 }, 'halfway');
    expect(lines).toEqual([{ level: 20, task: 'a', page: 3, msg: 'halfway' }]);
  });
});
