import { describe, expect, it } from 'vitest';
import { readAdmission } from '../config/admission.ts';
import { LimitBook } from './limits.ts';

const keysOf = (
  book: LimitBook,
  subject: Parameters<LimitBook['of']>[0],
): readonly (readonly [string, number | null])[] =>
  book.of(subject).map(({ key, concurrency }) => [key, concurrency]);

describe('the limits of a task', () => {
  const book = new LimitBook(
    readAdmission({
      'queue:*': { concurrency: 100 },
      'queue:billing': { concurrency: 20 },
      'tenant:*': { concurrency: 5 },
      'tenant:acme-*': { concurrency: 6 },
      'tenant:acme-eu': { concurrency: 7 },
      'task:shop.*': { concurrency: 30 },
    }),
  );

  it('are the most specific rule of each kind, in the order tenant, task, queue', () => {
    const subject = { name: 'shop.charge', queue: 'billing', tenant: 'acme-eu' };
    expect(keysOf(book, subject)).toEqual([
      ['tenant:acme-eu', 7],
      ['task:shop.charge', 30],
      ['queue:billing', 20],
    ]);
    expect(keysOf(book, { ...subject, tenant: 'acme-us', queue: 'mail' })).toEqual([
      ['tenant:acme-us', 6],
      ['task:shop.charge', 30],
      ['queue:mail', 100],
    ]);
    expect(keysOf(book, { name: 'x', queue: 'mail' })).toEqual([['queue:mail', 100]]);
  });

  it('end with the one limit that all tasks share under one key', () => {
    const all = new LimitBook(
      readAdmission({ '*': { concurrency: 9 }, 'task:*': { concurrency: 3 } }),
    );
    for (const name of ['shop.charge', 'mail.send'])
      expect(keysOf(all, { name, queue: 'q' })).toEqual([
        [`task:${name}`, 3],
        ['*', 9],
      ]);
  });

  it('start with the rule of the task itself; under one key the rule of the configuration wins', () => {
    const own = { name: 'shop.charge', queue: 'mail' };
    expect(keysOf(book, { ...own, admission: { key: 'a', concurrency: 1 } })).toEqual([
      ['task:shop.charge:a', 1],
      ['task:shop.charge', 30],
      ['queue:mail', 100],
    ]);
    expect(keysOf(book, { ...own, admission: { concurrency: 1 } })[0]).toEqual([
      'task:shop.charge',
      30,
    ]);
  });
});
