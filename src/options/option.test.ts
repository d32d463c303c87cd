import { describe, expect, it } from 'vitest';
import { readValue } from '../config/resolve-section.ts';
import { statementOf, termsOf } from '../task/keyring.ts';
import { addTravelling, inheritedOf, listedOf, TRAVELLING } from '../task/travelling-options.ts';
import { BROKER_TABLE } from './broker-table.ts';
import { HANDLER_TABLE } from './handler-table.ts';
import { defaultDuration, defaultNumber, rowOf, type OptionTable } from './option.ts';
import { RELAY_TABLE } from './relay-table.ts';
import { RESURRECTOR_TABLE } from './resurrector-table.ts';
import { SEND_TABLE } from './send-table.ts';
import { ADMISSION_RULE_TABLE, TASK_TABLE } from './task-table.ts';
import { TOP_LEVEL_TABLE } from './top-level-table.ts';
import { WORKER_TABLE } from './worker-table.ts';

const TABLES: Readonly<Record<string, OptionTable>> = {
  relay: RELAY_TABLE,
  worker: WORKER_TABLE,
  resurrector: RESURRECTOR_TABLE,
  'top level': TOP_LEVEL_TABLE,
  broker: BROKER_TABLE,
  task: TASK_TABLE,
  rule: ADMISSION_RULE_TABLE,
  handler: HANDLER_TABLE,
  send: SEND_TABLE,
};

/** Kinds of which a value can be checked by the row alone. */
const CHECKED = new Set([
  'integer',
  'seconds',
  'duration',
  'choice',
  'boolean',
  'path',
  'host',
  'queues',
]);

function* rowsIn(table: OptionTable): Generator<[string, OptionTable[string]]> {
  for (const [key, row] of Object.entries(table)) {
    yield [key, row];
    if (row.kind === 'group') yield* rowsIn(row.members);
  }
}

describe.each(Object.entries(TABLES))('the table of %s', (_, table) => {
  it('has a sentence for every option', () => {
    for (const [key, { sentence }] of rowsIn(table))
      expect(sentence, key).toMatch(/^[`A-Z0-9].*\.$/s);
  });

  it('has no default that its own row would refuse', () => {
    for (const [key, row] of rowsIn(table)) {
      if (row.default === undefined || !CHECKED.has(row.kind)) continue;
      expect(() => readValue(row, row.default, key)).not.toThrow();
      if (row.kind === 'duration' && row.embedded !== undefined)
        expect(() => readValue(row, row.embedded, key)).not.toThrow();
      if (row.kind === 'choice' && row.whenSigning !== undefined)
        expect(() => readValue(row, row.whenSigning, key)).not.toThrow();
    }
  });
});

describe('a table row that code looks up by name', () => {
  it('throws when it is of another kind or missing', () => {
    const isBug: unknown = expect.objectContaining({ code: 'ERR_INVARIANT' });
    expect(() => rowOf(RELAY_TABLE, 'batchSize', 'duration')).toThrow(isBug);
    expect(() => rowOf(RELAY_TABLE, 'nothing', 'duration')).toThrow(isBug);
    expect(() => defaultDuration(TASK_TABLE, 'timeout')).toThrow(isBug);
    expect(() => defaultNumber(BROKER_TABLE, 'maxPriority')).toThrow(isBug);
    expect(rowOf(RELAY_TABLE, 'batchSize', 'integer', 'seconds').min).toBe(1);
  });
});

describe('an option that travels', () => {
  const envelope = { id: 'i', queue: 'q', digest: 'd', etaMs: null, expiresMs: null };
  const statement = (options: object): string => {
    const task = { ...envelope, options };
    return statementOf(task, termsOf(task, 0), '');
  };

  it.each(TRAVELLING)('is covered by the signature: $key', ({ key }) => {
    expect(statement({ [key]: 'x' })).not.toBe(statement({}));
    expect(statement({ [key]: 'x' })).not.toBe(statement({ [key]: 'y' }));
  });

  it('is signed under its name when it has no fixed position', () => {
    const rows = [{ ...TRAVELLING[0], key: 'region' as never, hasSignedPosition: false }] as never;
    expect(listedOf({ region: 'eu' } as never, rows)).toEqual([['region', 'eu']]);
    expect(listedOf({}, rows)).toEqual([]);
  });

  it('is checked as a key of a store', () => {
    for (const { key } of TRAVELLING) {
      expect(() => addTravelling({}, { [key]: 'a\nb' })).toThrow(
        expect.objectContaining({ code: 'ERR_NAME_UNSAFE' }),
      );
      const made = {};
      addTravelling(made, { [key]: 'fine' });
      expect(made).toEqual({ [key]: 'fine' });
    }
  });

  it('is inherited by follow-ups if its row says so', () => {
    expect(inheritedOf({ tenant: 'a', idempotencyKey: 'k' } as never)).toEqual({ tenant: 'a' });
  });
});
