import { statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPTION_TABLE } from '../../src/config/option-table.ts';
import { CliProject, json, SHOP } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
let project: CliProject;

beforeAll(async () => {
  database = await migratedDatabase('relay_cli');
  project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url });
});

afterAll(async () => {
  await project.dispose();
  await database.dispose();
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

describe('outlast relay', () => {
  it('lists all its flags with their defaults', async () => {
    const { code, stdout } = await project.run('relay', '--help');
    expect(code).toBe(0);
    // Lines are broken to the width of the terminal.
    const text = stdout.replaceAll(/\s+/g, ' ');
    for (const row of OPTION_TABLE.relay)
      expect(text).toContain(`${row.flag} <value> ${row.sentence} (default: ${row.default};`);
    for (const flag of ['--once', '--drain', '--json', '--outbox']) expect(text).toContain(flag);
  });

  it.each([
    [['--stale-timeout-seconds', '5', '--send-timeout', '10'], '--send-timeout'],
    [['--publish-concurrency', '0'], '--publish-concurrency'],
    [['--health-port', '70000'], '--health-port'],
    [['--broker-outage-cooldown', 'soon'], '--broker-outage-cooldown'],
    [['--queue-snapshot-refresh-seconds', '5s'], '--queue-snapshot-refresh-seconds'],
    [['--publish-concurency', '3'], '--publish-concurrency'],
    [['--once', '--health-port', '8080'], '--health-port'],
    [['--drain', '--liveness-file', 'alive'], '--liveness-file'],
  ])('%j is refused with a message that names the flag', async (args, named) => {
    const { code, stderr } = await project.run('relay', ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(named);
  });

  it('reports its liveness by a file and a port, and removes both at its end', async () => {
    const port = await freePort();
    const file = join(project.folder, 'alive');
    const relay = project.start([
      'relay',
      '--json',
      '--health-port',
      String(port),
      '--liveness-file',
      file,
      '--queue-snapshot-refresh-seconds',
      '0.1',
    ]);
    await relay.says('relay started');
    const health = async (): Promise<Record<string, unknown> | null> =>
      await fetch(`http://127.0.0.1:${port}/health`)
        .then(async answer => (await answer.json()) as Record<string, unknown>)
        .catch(() => null);
    const first = await until(health);
    expect(first).toMatchObject({ alive: true, breaker: 'closed' });
    await until(async () => (await health())?.['queue_depth'] === 0);
    const touched = statSync(file).mtimeMs;
    await until(async () => statSync(file).mtimeMs > touched);
    const { code, stderr } = await relay.stop();
    expect(code).toBe(0);
    for (const line of stderr.trim().split('\n')) expect(json<object>(line)).toBeTypeOf('object');
    expect(await health()).toBeNull();
  });
});
