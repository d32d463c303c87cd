import { describe, expect, it } from 'vitest';
import { bind, bindRows } from './statement.ts';

describe('a statement', () => {
  it('binds its parameters in the order of its placeholders, each as often as it is used', () => {
    const statement = { text: 'select ? from t where a = ? and b = ?', order: [1, 0, 1] };
    expect(bind(statement, ['a', 'b'])).toEqual({ text: statement.text, values: ['b', 'a', 'b'] });
  });

  it('has one placeholder for each element of a list', () => {
    const statement = { text: 'delete from t where id in (?) and token = ?', order: [1, 0] };
    expect(bind<string | number>(statement, ['x', [1, 2, 3]])).toEqual({
      text: 'delete from t where id in (?, ?, ?) and token = ?',
      values: [1, 2, 3, 'x'],
    });
  });

  it('repeats its VALUES tuple for each row, also before ON DUPLICATE KEY UPDATE', () => {
    const plain = { text: 'insert into t (a, b) values (?, lower(?))', order: [0, 1] };
    expect(
      bindRows(plain, [
        ['1', '2'],
        ['3', null],
      ]),
    ).toEqual({
      text: 'insert into t (a, b) values (?, lower(?)),\n(?, lower(?))',
      values: ['1', '2', '3', null],
    });
    const upsert = {
      text: 'insert into t (a) values (?)\non duplicate key update a = t.a',
      order: [0],
    };
    expect(bindRows(upsert, [['1'], ['2']]).text).toBe(
      'insert into t (a) values (?),\n(?)\non duplicate key update a = t.a',
    );
  });
});
