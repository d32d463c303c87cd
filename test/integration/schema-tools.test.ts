import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { EntitySchema as MikroSchema } from '@mikro-orm/core';
import { MikroORM } from '@mikro-orm/postgresql';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrateTarget } from '../../src/context/openers.ts';
import { withDatabase, type TestDatabase } from '../support/servers.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

let server: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  server = await withDatabase('tools');
  await migrateTarget({ kind: 'postgres', url: server.url, schema: 'outlast' });
  pool = new Pool({ connectionString: server.url });
  // What the schema of the application no longer has: a tool that does nothing at all would not propose to drop it.
  await pool.query('create table forgotten (id text primary key)');
});

afterAll(async () => {
  await pool.end();
  await server.drop();
});

async function tables(): Promise<readonly string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select schemaname || '.' || tablename as name from pg_tables where schemaname in ('public', 'outlast') order by 1`,
  );
  return rows.map(({ name }) => name);
}

describe('a tool that compares the schema of an application with a database that has ours in `outlast`', () => {
  it('drizzle-kit push changes the tables of the application and leaves ours alone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'outlast-tools-'));
    try {
      mkdirSync(join(folder, 'node_modules'));
      for (const name of ['drizzle-kit', 'drizzle-orm', 'pg'])
        symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
      writeFileSync(
        join(folder, 'schema.ts'),
        `import { pgTable, text } from 'drizzle-orm/pg-core';
         export const forgotten = pgTable('forgotten', { id: text().primaryKey(), more: text() });`,
      );
      writeFileSync(
        join(folder, 'drizzle.config.ts'),
        `export default { dialect: 'postgresql', schema: './schema.ts', dbCredentials: { url: ${JSON.stringify(server.url)} } };`,
      );
      const before = await tables();
      const program = join(ROOT, 'node_modules/drizzle-kit/bin.cjs');
      const args = [program, 'push', '--verbose', '--force'];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder });
      expect(stdout).toContain('ALTER TABLE "forgotten" ADD COLUMN "more" text');
      expect(stdout).not.toMatch(/outlast_|drop/i);
      expect(await tables()).toEqual(before);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('MikroORM proposes to drop a table of the application, and none of ours', async () => {
    const Kept = new MikroSchema<{ id: string }>({
      name: 'Kept',
      tableName: 'kept',
      properties: { id: { type: 'string', primary: true } },
    });
    const orm = await MikroORM.init({
      clientUrl: server.url,
      entities: [Kept],
      schemaGenerator: { ignoreSchema: ['outlast'] },
    });
    const proposed = await orm.schema.getUpdateSchemaSQL();
    await orm.close();
    expect(proposed).toMatch(/drop table if exists "forgotten"/);
    expect(proposed).not.toContain('outlast');
  });
});
