import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERROR_FAMILY, type ErrorCode } from './codes.ts';
import {
  ConfigError,
  isOutlastError,
  isUnavailable,
  OutcomeError,
  outlastError,
  OutlastError,
} from './error.ts';

const CODES = Object.keys(ERROR_FAMILY) as ErrorCode[];

interface Row {
  readonly code: string;
  readonly family: string;
  readonly cells: readonly string[];
}

/** The rows of the page's tables, each with the heading above it. */
function readPage(): Row[] {
  const page = readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8');
  const rows: Row[] = [];
  let family = '';
  for (const line of page.split('\n')) {
    family = /^## (\w+)$/.exec(line)?.[1] ?? family;
    const code = /^\| `(ERR_\w+)` \|/.exec(line)?.[1];
    const cells = line
      .split('|')
      .slice(2, -1)
      .map(cell => cell.trim());
    if (code !== undefined) rows.push({ code, family, cells });
  }
  return rows;
}

/** The fields of a code are a type only, so they are read from the source. */
function fieldsOf(code: string): string[] {
  const source = readFileSync(new URL('codes.ts', import.meta.url), 'utf8');
  const declared =
    new RegExp(`readonly ${code}: (Record<never, never>|\\{[^}]*\\});`).exec(source)?.[1] ?? '';
  return [...declared.matchAll(/readonly (\w+)\??:/g)].map(match => match[1] as string);
}

describe('docs/reference/errors.md', () => {
  it('lists every code once, in the order of the source', () => {
    expect(readPage().map(row => row.code)).toEqual(CODES);
  });

  it('puts every code under its family', () => {
    expect(Object.fromEntries(readPage().map(row => [row.code, row.family]))).toEqual(ERROR_FAMILY);
  });

  it.each(readPage())(
    'describes when $code happens, what to do, and its fields',
    ({ code, cells }) => {
      const [fields = '', when = '', todo = '', ...rest] = cells;
      const named =
        fields === 'none' ? [] : fields.split(', ').map(field => field.replaceAll('`', ''));
      expect(named).toEqual(fieldsOf(code));
      expect(when).toMatch(/\.$/);
      expect(todo).toMatch(/\.$/);
      expect(rest).toEqual([]);
    },
  );

  it('mentions no code that does not exist', () => {
    const page = readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8');
    const mentioned = new Set(page.match(/ERR_[A-Z_]+/g));
    expect([...mentioned].filter(code => !CODES.includes(code as ErrorCode))).toEqual([]);
  });
});

describe('an error', () => {
  const make = (): OutlastError =>
    outlastError('ERR_OPTION_RANGE', {
      message: 'too large',
      hint: 'Use less.',
      fields: { option: 'relay.batchSize' },
      cause: 'why',
    });

  it('has its code, hint, fields, cause and the name of its family', () => {
    expect(make()).toMatchObject({
      code: 'ERR_OPTION_RANGE',
      hint: 'Use less.',
      option: 'relay.batchSize',
      cause: 'why',
      message: 'too large',
      name: 'ConfigError',
    });
  });

  it('is of the class of its family and of no other', () => {
    expect(make()).toBeInstanceOf(ConfigError);
    expect(make()).toBeInstanceOf(OutlastError);
    expect(make()).not.toBeInstanceOf(OutcomeError);
  });

  it('has no cause when there is none', () => {
    expect('cause' in outlastError('ERR_CLOSED', { message: 'm', hint: 'h', fields: {} })).toBe(
      false,
    );
  });

  it('is recognized by its brand, also when another copy of the package made it', () => {
    const foreign = Object.assign(new Error('m'), {
      code: 'ERR_CLOSED',
      [Symbol.for('outlast.error')]: true,
    });
    expect(isOutlastError(foreign)).toBe(true);
    expect(isOutlastError(foreign, 'ERR_CLOSED')).toBe(true);
    expect(isOutlastError(foreign, 'ERR_TIMEOUT')).toBe(false);
  });

  it('is not any object that only has a code', () => {
    for (const other of [new Error('m'), { code: 'ERR_CLOSED' }, null, undefined, 'ERR_CLOSED']) {
      expect(isOutlastError(other)).toBe(false);
    }
  });

  it('counts as unavailable only when its family says so', () => {
    const gone = outlastError('ERR_STORE_UNAVAILABLE', { message: 'm', hint: 'h', fields: {} });
    expect([isUnavailable(gone), isUnavailable(make()), isUnavailable(new Error('m'))]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
