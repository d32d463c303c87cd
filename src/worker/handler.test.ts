import { describe, expect, it } from 'vitest';
import { task, type Task, type TaskShape } from '../task/define-task.ts';
import { unchecked } from '../task/standard-schema.ts';
import { defineHandler, type HandlerOptions } from './handler.ts';

const unused = {
  door: () => ({
    locksTask: false,
    pass: () => Promise.resolve(null),
    fence: () => Promise.resolve(),
  }),
  sendInside: () => Promise.resolve(''),
};
const run = (): void => undefined;
const define = (options: object): unknown =>
  defineHandler(
    task('h.task') as Task,
    options as HandlerOptions<TaskShape, unknown, never>,
    unused,
  );

describe('a task', () => {
  it.each([
    ['30s', '30s'],
    ['30s', '1m'],
  ] as const)('with timeout %s and soft timeout %s is refused', (timeout, softTimeout) => {
    expect(() => task('h.slow', { timeout, softTimeout })).toThrow(
      expect.objectContaining({
        code: 'ERR_OPTIONS_CONFLICT',
        options: ['softTimeout', 'timeout'],
      }),
    );
  });

  it.each(['timeout', 'expires'])('with a time of 0 is refused: %s', option => {
    expect(() => task('h.never', { [option]: '0s' })).toThrow(
      expect.objectContaining({ code: 'ERR_OPTION_RANGE', option: `${option} of h.never` }),
    );
    expect(task('h.fine', { timeout: '30s', softTimeout: '29.999s' }).contract).toMatchObject({
      timeoutMs: 30_000,
      softTimeoutMs: 29_999,
    });
  });
});

describe('a schema', () => {
  it.each(['input', 'result', 'args', 'kwargs'])(
    'that is not a Standard Schema is refused as %s',
    option => {
      for (const given of [{}, null, 'string', 5, { '~standard': { version: 1 } }])
        expect(() => task('h.odd', { [option]: given as never })).toThrow(
          expect.objectContaining({ code: 'ERR_OPTION_RANGE', option: `${option} of h.odd` }),
        );
    },
  );

  it('may be a function, as in arktype', () => {
    const { '~standard': standard } = unchecked<string>();
    const schema = Object.assign(() => undefined, { '~standard': standard });
    expect(task('h.arktype', { input: schema }).contract.input).toBe(schema);
  });
});

describe('a handler', () => {
  it('has the defaults that are documented', () => {
    expect(define({ run })).toMatchObject({
      mode: 'inline',
      fence: 'door',
      maxResurrections: 5,
      maxAttempts: 5,
      backoff: { baseMs: 1_000, maxMs: 3_600_000, jitter: 'full' },
    });
  });

  it.each([
    [{ run, mode: 'fiber' }, 'ERR_OPTION_RANGE', 'mode'],
    [{ run, fence: 'end' }, 'ERR_OPTION_RANGE', 'fence'],
    [{}, 'ERR_OPTION_RANGE', 'run'],
    [{ run, checkpoint: {} }, 'ERR_OPTION_RANGE', 'checkpoint of the handler of h.task'],
    [{ run, onSoftTimeout: 5 }, 'ERR_OPTION_RANGE', 'onSoftTimeout'],
    [{ run, retries: 5 }, 'ERR_UNKNOWN_OPTION', 'retries'],
    [{ run, migrations: { 1: 'rename' } }, 'ERR_OPTION_RANGE', 'migrations.1'],
    [{ run, migrations: { 1: run } }, 'ERR_OPTION_RANGE', 'migrations'],
    [{ run, migrations: { one: run } }, 'ERR_OPTION_RANGE', 'migrations'],
    [{ run, retry: { max: 5 } }, 'ERR_UNKNOWN_OPTION', 'max'],
    [{ run, retry: { jitter: 'half' } }, 'ERR_OPTION_RANGE', 'retry.jitter'],
    [{ run, retry: { retryIf: 'never' } }, 'ERR_OPTION_RANGE', 'retry.retryIf'],
    [{ run, retry: { maxAttempts: 0 } }, 'ERR_OPTION_RANGE', 'retry.maxAttempts'],
    [{ run, retry: { backoff: 1_000 } }, 'ERR_OPTION_UNIT', 'retry.backoff'],
    [{ run, maxResurrections: -1 }, 'ERR_OPTION_RANGE', 'maxResurrections'],
  ] as const)('%j is refused: %s', (options, code, option) => {
    expect(() => define(options)).toThrow(expect.objectContaining({ code, option }));
  });

  it('whose backoff is longer than its maxBackoff is refused', () => {
    expect(() => define({ run, retry: { backoff: '1m', maxBackoff: '1s' } })).toThrow(
      expect.objectContaining({
        code: 'ERR_OPTIONS_CONFLICT',
        options: ['retry.backoff', 'retry.maxBackoff'],
      }),
    );
    // A backoff above the default maxBackoff only is no mistake.
    expect(define({ run, retry: { backoff: '2h' } })).toMatchObject({
      backoff: { baseMs: 7_200_000, maxMs: 7_200_000 },
    });
  });
});
