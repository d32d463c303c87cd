import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DIALECTS } from '../../src/adapters/dialects.ts';
import type { DialectRow } from '../../src/adapters/sql/dialect.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { runOnce } from '../../src/app/start-services.ts';
import { resolveConfig } from '../../src/config/config.ts';
import type { OutboxTarget } from '../../src/config/database-target.ts';
import { checkDatabase } from '../../src/context/check-redis.ts';
import { loadDialect, migrateTarget, openDatabase } from '../../src/context/openers.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { CHECK_LIMITS } from '../../src/telemetry/checkup.ts';
import { closeToys } from './toy/toy-database.ts';

const TOY: DialectRow = {
  title: 'Toy',
  schemes: ['toy'],
  location: 'folder',
  canBeLedger: true,
  language: 'toy',
  load: () => import('./toy/dialect.ts'),
};
const URL = 'toy:./box';
const double = task('toy.double', { input: unchecked<number>(), result: unchecked<number>() });

const toyTarget = (): OutboxTarget => resolveConfig({ database: URL }, {}).database;

const rows = DIALECTS as Record<string, DialectRow>;

beforeAll(async () => {
  rows['toy'] = TOY;
  // It takes long on a busy machine, and is the same for all.
  await openDatabase(toyTarget(), { embedded: 'create' });
}, 120_000);

afterAll(async () => {
  delete rows['toy'];
  await closeToys();
});

const read = (path: string): string =>
  readFileSync(new globalThis.URL(`../../${path}`, import.meta.url), 'utf8');

/** The table of the errand "A database adapter": what each file gives. */
function readErrand(): { readonly files: readonly string[]; readonly members: readonly string[] } {
  const errand =
    read('CONTRIBUTING.md').split('### A database adapter')[1]?.split('\n### ')[0] ?? '';
  const cells = [...errand.matchAll(/^\| `([^`]+)` \| (.*) \|$/gm)];
  return {
    files: cells.map(([, file = '']) => file),
    members: cells.flatMap(([, , gives = '']) =>
      [...gives.matchAll(/`(\w+)`/g)].map(found => found[1] ?? ''),
    ),
  };
}

describe('the errand "A database adapter"', () => {
  it('names every member of a dialect, and no other', async () => {
    const target = toyTarget();
    const database = await openDatabase(target, { embedded: 'create' });
    const parts = [
      TOY,
      await loadDialect(target),
      database,
      database.ledger?.({ movesIntoLedger: true }),
    ];
    const members = parts.flatMap(part => Object.keys(part ?? {}));
    expect(readErrand().members.toSorted()).toEqual(members.toSorted());
  });

  it('names the files that the dialect of MySQL consists of', () => {
    const imported = read('src/adapters/mysql/dialect.ts').matchAll(/from '\.\/(.*)'/g);
    const files = readErrand()
      .files.filter(file => file.startsWith('<name>/'))
      .map(file => file.slice('<name>/'.length).replace('<name>', 'mysql'));
    const found = [...imported].map(([, file = '']) => file);
    expect(files.toSorted()).toEqual([...found, 'dialect.ts'].toSorted());
  });
});

describe('a dialect with a folder and a row', () => {
  it('has its tables created, printed and checked', async () => {
    const target = toyTarget();
    expect((await migrateTarget(target)).applied).not.toEqual([]);
    expect((await loadDialect(target)).printMigrations()).toMatch(/^-- toy/);
    const checks = await checkDatabase(target, CHECK_LIMITS, {
      broker: null,
      ledger: { kind: 'database' },
    });
    expect(checks.filter(({ status }) => status !== 'ok')).toEqual([]);
    expect(checks.map(({ name }) => name)).toContain('tiers');
  });

  it('carries a task from send to result', async () => {
    await using outlast = createOutlast({ database: URL });
    const handler = outlast.handler(double, (n, ctx) => ctx.transaction(async () => n * 2));
    const sent = await outlast.transaction(tx => outlast.send(tx, double, 21));
    await runOnce(outlast, { tasks: [handler] });
    expect(await sent.result()).toBe(42);
  });

  it('refuses the adapter of another dialect', () => {
    const make = (): unknown => createOutlast({ database: URL, adapter: fromPg({} as never) });
    expect(make).toThrow('the adapter is for PostgreSQL, and this outbox is in Toy');
  });

  it('is refused as a ledger where it is only an outbox', () => {
    rows['toy'] = { ...TOY, canBeLedger: false };
    try {
      expect(() => resolveConfig({ database: URL }, {})).toThrow('is Toy, which is an outbox only');
    } finally {
      rows['toy'] = TOY;
    }
  });
});
