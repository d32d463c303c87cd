import { describe, expect, it } from 'vitest';
import { outlastError } from '../../errors/error.ts';
import { translateRedisError } from './redis-errors.ts';

const role = { is: 'broker', maskedUrl: 'redis://:***@cache/0' } as const;
const reply = (message: string): Error =>
  Object.assign(new Error(message), { name: 'ReplyError', command: { args: ['hunter2'] } });

describe('an error from Redis', () => {
  it('means unavailable when it may pass by itself', () => {
    for (const message of [
      "OOM command not allowed when used memory > 'maxmemory'.",
      'LOADING Redis is loading the dataset in memory',
      "READONLY You can't write against a read only replica.",
      'CLUSTERDOWN The cluster is down',
      'MISCONF Redis is configured to save RDB snapshots',
      'WRONGPASS invalid username-password pair or user is disabled.',
      'ERR DB index is out of range',
      'ERR max number of clients reached',
    ]) {
      expect(translateRedisError(reply(message), role)).toMatchObject({
        code: 'ERR_BROKER_UNAVAILABLE',
        message: `Redis at redis://:***@cache/0 cannot be used now: ${message}`,
      });
    }
  });

  it('means unavailable when the connection broke', () => {
    const cut = Object.assign(new Error('Reached the max retries per request limit'), {
      name: 'MaxRetriesPerRequestError',
    });
    expect(translateRedisError(cut, role)).toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      message: expect.stringContaining('the connection broke') as string,
    });
    expect(translateRedisError(new Error('ECONNRESET'), { ...role, is: 'ledger' })).toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });

  it('is a configuration error when the server is too old for our scripts', () => {
    const old = reply(
      "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#' ",
    );
    expect(translateRedisError(old, role)).toMatchObject({
      code: 'ERR_CONFIG_TIER',
      option: 'broker',
      hint: expect.stringContaining('7.0') as string,
    });
  });

  it('is passed on unchanged otherwise, without the arguments of its command', () => {
    const wrong = reply('WRONGTYPE Operation against a key holding the wrong kind of value');
    expect(translateRedisError(wrong, role)).toBe(wrong);
    expect(JSON.stringify(Object.entries(wrong))).not.toContain('hunter2');
    const ours = outlastError('ERR_CLOSED', { message: 'm', hint: 'h', fields: {} });
    expect(translateRedisError(ours, role)).toBe(ours);
  });
});
