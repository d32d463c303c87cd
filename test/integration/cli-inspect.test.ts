import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliProject, json, SHOP, type JsonError } from '../support/cli-project.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  database = await migratedDatabase('cli_inspect');
  project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url });
  await project.run('send', 'shop.echo', '--id', 'e1', '--args', '[1.0]', '--tenant', 'acme');
  await project.run('send', 'shop.fail', '--id', 'f1', '--args', '[1]');
  await project.run('relay', '--drain');
  await project.run('send', 'shop.echo', '--id', 'later', '--countdown', '600');
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

interface Page {
  readonly items: readonly Readonly<Record<string, unknown>>[];
  readonly next: string | null;
}

const list = async (...flags: readonly string[]): Promise<Page> =>
  json<Page>((await project.run('tasks', 'list', ...flags, '--json')).stdout);
const answer = async (id: string): Promise<Readonly<Record<string, unknown>>> =>
  json((await project.run('tasks', 'why', id, '--json')).stdout);

describe('tasks', () => {
  it('are listed with the terms of the API, page by page, and answer why they wait', async () => {
    const first = await list('--limit', '2');
    expect(first.items.map(({ id }) => id)).toEqual(['e1', 'f1']);
    const second = await list('--limit', '2', '--cursor', first.next ?? '');
    expect(second).toMatchObject({ items: [{ id: 'later', state: 'waiting' }], next: null });
    expect((await list('--tenant', 'acme')).items).toMatchObject([
      { id: 'e1', name: 'shop.echo', state: 'waiting', tenant: 'acme' },
    ]);
    expect((await list('--older-than', '1h')).items).toEqual([]);
    expect((await list('--name', '*.fail', '--id-prefix', 'f')).items).toHaveLength(1);
    const text = await project.run('tasks', 'list', '--state', 'waiting');
    expect(text.stdout).toMatch(/^ID +STATE +NAME +QUEUE/);
    expect(await answer('later')).toMatchObject({ code: 'waiting-for-eta' });
    expect(await answer('e1')).toMatchObject({
      code: 'no-consumer',
      details: { queue: 'default' },
    });
    const bad = await project.run('tasks', 'list', '--state', 'lost', '--json');
    expect(bad.code).toBe(2);
    expect(json<JsonError>(bad.stderr).error.code).toBe('ERR_OPTION_RANGE');
  });

  it('are shown with their input before they run, and with their result afterwards', async () => {
    const before = await project.run('tasks', 'inspect', 'e1', '--json');
    expect(before.stdout).toContain('"args":[1.0]');
    const worker = project.start(['worker', '--processes', '1']);
    expect((await project.run('result', 'e1', '--wait', '60')).code).toBe(0);
    expect((await project.run('result', 'f1', '--wait', '60')).stdout).toContain('dead');
    await worker.stop();
    const shown = await project.run('tasks', 'inspect', 'e1', '--json');
    expect(shown.stdout).toContain('"result":1');
    expect(json(shown.stdout)).toMatchObject({ state: 'done', ending: 'done', is_redacted: false });
    const text = await project.run('tasks', 'inspect', 'f1');
    expect(text.stdout).toMatch(/state +dead[^]*reason +ERR_ATTEMPTS_SPENT[^]*begun run 1 epoch 1/);
    expect(await answer('e1')).toMatchObject({ code: 'done' });
    expect(await answer('f1')).toMatchObject({ code: 'dead' });
    expect((await list('--state', 'dead', '--error', 'RED')).items).toMatchObject([{ id: 'f1' }]);
    expect((await list('--state', 'done')).items).toMatchObject([{ id: 'e1' }]);
  });

  it('are cancelled once, and an unknown one is not found', async () => {
    expect(await project.run('tasks', 'cancel', 'later')).toMatchObject({
      code: 0,
      stdout: 'later is cancelled\n',
    });
    expect(await answer('later')).toMatchObject({ code: 'cancelled' });
    expect((await project.run('tasks', 'cancel', 'e1')).code).toBe(4);
    for (const verb of ['inspect', 'why'])
      expect((await project.run('tasks', verb, 'nobody')).code).toBe(3);
    expect(await project.run('tasks', 'inflight')).toMatchObject({
      code: 0,
      stderr: 'nothing runs\n',
    });
  });
});
