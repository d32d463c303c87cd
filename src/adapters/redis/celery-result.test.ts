import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { toText } from '../../task/json.ts';
import { celeryResultKey, readCeleryResult } from './redis-result-store.ts';

interface ResultVector {
  readonly name: string;
  readonly key: string;
  readonly value: string;
}

const read = (file: string): readonly ResultVector[] => {
  const url = new URL(`../../../test/vectors/celery/${file}`, import.meta.url);
  return (JSON.parse(readFileSync(url, 'utf8')) as { vectors: ResultVector[] }).vectors;
};

const FILES = ['results-redis.json', 'results-redis-5.6.json'];

describe.each(FILES)('outcomes in %s', file => {
  const vectors = read(file);
  const outcome = (name: string) =>
    readCeleryResult(vectors.find(vector => vector.name === name)?.value ?? '');

  it('have the keys under which we look for them', () => {
    const ofTasks = vectors.filter(({ value }) => value.includes('"task_id"'));
    expect(ofTasks.length).toBeGreaterThan(10);
    for (const { key, value } of ofTasks) {
      const { task_id: id } = JSON.parse(value) as { readonly task_id: string };
      expect(celeryResultKey(id)).toBe(key);
      expect(readCeleryResult(value)).not.toBeNull();
    }
  });

  it('contain the result of a successful task', () => {
    const success = outcome('success');
    expect(success).toMatchObject({ state: 'done', ending: 'done', error: null, why: null });
    expect(toText(success?.result ?? new Uint8Array())).toBe('5');
    const echo = JSON.parse(toText(outcome('echo-kwargs')?.result ?? new Uint8Array())) as unknown;
    expect(echo).toEqual({ args: ['a'], kwargs: { x: 1, t: 'žlutý 😀' } });
  });

  it('contain type, message and traceback of a failed task', () => {
    const failure = outcome('failure');
    expect(failure).toMatchObject({ state: 'dead', ending: 'dead', result: null });
    expect(failure?.error).toMatchObject({ type: 'ValueError', message: 'boom' });
    expect(failure?.error?.traceback).toContain('Traceback');
    expect(outcome('unregistered')?.error).toEqual({
      type: 'NotRegistered',
      message: 'interop.nope',
      traceback: '',
    });
  });

  it('distinguish expired, revoked and unfinished tasks', () => {
    expect(outcome('expired')).toMatchObject({ state: 'cancelled', ending: 'expired' });
    expect(outcome('revoked')).toMatchObject({ state: 'cancelled', ending: 'cancelled' });
    expect(outcome('retry-state')).toMatchObject({ state: 'waiting', ending: null });
    expect(outcome('custom-state')).toMatchObject({ state: 'running', ending: null });
  });
});

describe('a stored value', () => {
  it.each([
    '',
    'null',
    '[]',
    '"SUCCESS"',
    '{"status": 1}',
    '{"result": [["a", null], []]}',
    '{"st',
  ])('%j is not read as an outcome', text => {
    expect(readCeleryResult(text)).toBeNull();
  });

  it('is read as an outcome when its result contains NaN, which only Python writes', () => {
    const text = '{"status": "SUCCESS", "result": [NaN, ", "], "traceback": null, "children": []}';
    const record = readCeleryResult(text);
    expect(record?.ending).toBe('done');
    expect(toText(record?.result ?? new Uint8Array())).toBe('[NaN, ", "]');
  });

  it('keeps integers beyond 2^53', () => {
    const text = '{"status": "SUCCESS", "result": 12345678901234567890, "traceback": null}';
    expect(toText(readCeleryResult(text)?.result ?? new Uint8Array())).toBe('12345678901234567890');
  });
});
