import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { initProject } from './init-project.ts';
import { inspectProject, type Project } from './project.ts';

const made: string[] = [];
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function setup(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-init-'));
  made.push(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** A project with these packages; `type` and the like are further members. */
const manifest = (names: readonly string[], more: object = {}): string =>
  JSON.stringify({ ...more, dependencies: Object.fromEntries(names.map(name => [name, '1'])) });

const inspect = (names: readonly string[], files: Record<string, string> = {}): Project =>
  inspectProject(setup({ 'package.json': manifest(names), ...files }));

describe('the library of a project', () => {
  it.each([
    [['pg'], 'pg', 'postgres'],
    [['postgres'], 'postgres-js', 'postgres'],
    [['mysql2'], 'mysql2', 'mysql'],
    [['mariadb'], 'mariadb', 'mysql'],
    [['drizzle-orm', 'pg'], 'drizzle', 'postgres'],
    [['drizzle-orm', 'mysql2'], 'drizzle', 'mysql'],
    [['kysely', 'mysql2'], 'kysely', 'mysql'],
    [['knex', 'pg', 'mysql2'], 'knex', 'postgres'],
    [['typeorm', 'pg'], 'typeorm', 'postgres'],
    [['sequelize', 'mariadb'], 'sequelize', 'mysql'],
    [['@mikro-orm/core', '@mikro-orm/mysql', 'knex'], 'mikro-orm', 'mysql'],
    [['@prisma/client', '@prisma/adapter-mariadb'], 'prisma', 'mysql'],
    [['lodash'], 'pg', 'postgres'],
  ])('%j: %s on %s', (names, library, dialect) => {
    expect(inspect(names)).toMatchObject({ library: { name: library }, dialect });
  });

  it('is what Prisma says in its schema', () => {
    const schema = 'datasource db {\n  provider = "mysql"\n}';
    expect(inspect(['prisma', 'pg'], { 'prisma/schema.prisma': schema }).dialect).toBe('mysql');
  });

  it('can be chosen, and must be known', () => {
    const folder = setup({ 'package.json': manifest(['pg']) });
    expect(inspectProject(folder, { library: 'kysely', dialect: 'mysql' })).toMatchObject({
      library: { name: 'kysely' },
      dialect: 'mysql',
    });
    expect(() => inspectProject(folder, { library: 'mongoose' })).toThrow(
      expect.objectContaining({ code: 'ERR_OPTION_RANGE', option: '--library' }),
    );
  });
});

describe('the files of a project', () => {
  it.each([
    [{ 'package.json': manifest([]) }, 'commonjs', 'js', '.js'],
    [{ 'package.json': manifest([], { type: 'module' }) }, 'esm', 'js', '.js'],
    [{}, 'esm', 'mjs', '.mjs'],
    [{ 'package.json': manifest(['typescript']) }, 'esm', 'ts', '.js'],
    [
      { 'tsconfig.json': '{ "compilerOptions": { "moduleResolution": "Bundler" } }' },
      'esm',
      'ts',
      '',
    ],
    [{ 'tsconfig.json': '{ // why\n"allowImportingTsExtensions": true }' }, 'esm', 'ts', '.ts'],
  ])('%j: %s, .%s, named with %j', (files, modules, extension, suffix) => {
    expect(inspectProject(setup(files))).toMatchObject({ modules, extension, suffix });
  });

  it.each([
    [['next', 'express'], 'Next.js'],
    [['@nestjs/core', 'express'], 'NestJS'],
    [['fastify'], 'Fastify'],
    [['express'], 'Express'],
    [['hono'], 'Hono'],
    [['pg'], null],
  ])('%j: %s', (names, framework) => {
    expect(inspect(names).framework).toBe(framework);
  });

  it('need no compose file where the database has a URL', () => {
    const folder = setup({ 'package.json': manifest(['pg']), '.env': 'DATABASE_URL=postgres://x' });
    const { files, nextSteps } = initProject(folder, { writes: false });
    expect(files.map(({ path }) => path)).not.toContain('compose.yaml');
    expect(files[0]?.text).toContain('database: process.env.DATABASE_URL');
    expect(nextSteps.join('\n')).toContain('outlast migrate --env-file .env');
  });

  it('stay within the project', () => {
    for (const source of ['../other', '/etc', 'a//b', "src'; import 'x", '.'])
      expect(() => initProject(setup({}), { source, writes: true })).toThrow(
        expect.objectContaining({ code: 'ERR_OPTION_RANGE', option: '--source' }),
      );
  });

  it('are not guessed from a broken package.json', () => {
    for (const text of ['{', '5', 'null'])
      expect(() => inspectProject(setup({ 'package.json': text }))).toThrow(
        expect.objectContaining({ code: 'ERR_CONFIG_LOAD' }),
      );
  });
});
