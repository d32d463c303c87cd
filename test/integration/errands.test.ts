import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CliProcess, type Ended } from '../support/cli-project.ts';
import { rabbitmqUrl, redisUrl, withDatabase } from '../support/servers.ts';

const ROOT = join(import.meta.dirname, '../..');
const EXAMPLE = join(ROOT, 'examples/08-errands');
const README = readFileSync(join(EXAMPLE, 'README.md'), 'utf8');
const PRINTED = /```text\n([^]*?)```/.exec(README)?.[1];

type Env = Readonly<Record<string, string>>;

/** The example as `npm install` makes it, without the registry. Returns the folder of its services. */
function install(): string {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-errands-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const isSource = (path: string): boolean => !path.includes('/node_modules');
  cpSync(EXAMPLE, folder, {
    recursive: true,
    filter: source => isSource(source.slice(ROOT.length)),
  });
  const link = (target: string, name: string): void => {
    const path = join(folder, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(target, path);
  };
  for (const name of ['amqplib', 'drizzle-orm', 'ioredis', 'pg', 'zod'])
    link(join(ROOT, 'node_modules', name), name);
  link(ROOT, 'outlast');
  link(join(folder, 'packages/contracts'), '@errands/contracts');
  return join(folder, 'services');
}

function node(
  cwd: string,
  args: readonly string[],
  more: Env,
): Promise<{ code: number | null; text: string }> {
  const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, VITEST: ___, ...own } = process.env;
  return new Promise(resolve => {
    const options = { cwd, env: { ...own, ...more }, timeout: 120_000 };
    const child = execFile(process.execPath, args, options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, text: stdout + stderr }),
    );
  });
}

const BROKERS: Readonly<Record<string, () => Env>> = {
  postgres: () => ({}),
  rabbitmq: () => ({ OUTLAST_BROKER_URL: rabbitmqUrl() }),
  redis: () => ({ OUTLAST_BROKER_URL: new URL('/7', redisUrl()).href }),
};

it.each(Object.keys(BROKERS))('does every errand on %s, by its variables alone', async tier => {
  const database = await withDatabase('errands');
  onTestFinished(() => database.drop());
  const env = { ...BROKERS[tier]?.(), OUTLAST_DATABASE_URL: database.url };
  const services = install();
  const [shop, mail] = [join(services, 'shop'), join(services, 'mail')];
  const run = (...args: readonly string[]): Promise<Ended> => new CliProcess(args, shop, env).ended;
  expect(await run('migrate')).toMatchObject({ code: 0 });
  expect((await run('migrate')).stdout).toContain('nothing to do');

  const fleet = [
    new CliProcess(['worker'], shop, env),
    new CliProcess(['worker'], mail, env),
    new CliProcess(['resurrector'], shop, env),
    ...(tier === 'postgres' ? [] : [new CliProcess(['relay'], shop, env)]),
  ];
  onTestFinished(() => fleet.forEach(({ child }) => child.kill('SIGKILL')));
  const errands = await node(shop, ['src/errands/main.mjs'], env);
  const logs = fleet.map(({ stderr }) => stderr).join('');
  expect(errands.text, logs).toBe(PRINTED);
  // Two services on one queue meet each other's tasks all the time: that is not worth a line each.
  const strangers = logs.match(/no handler here .*task=\S+/g) ?? [];
  expect(strangers).toEqual([...new Set(strangers)]);
  for (const ended of await Promise.all(fleet.map(service => service.stop())))
    expect(ended).toMatchObject({ code: 0, signal: null });

  const name = 'shop.price';
  expect(await run('send', name, '--queue', 'errands', '--kwargs', '{"item":"cup"}')).toMatchObject(
    { code: 0 },
  );
  expect(await run('uninstall')).toMatchObject({ code: 4 });
});

it('has unit tests that need no server', async () => {
  const env = { OUTLAST_DATABASE_URL: 'postgres://127.0.0.1:1/none' };
  const { code, text } = await node(join(install(), 'shop'), ['--test', 'test/shop.test.mjs'], env);
  expect(text).toMatch(/pass 3\b/);
  expect(code).toBe(0);
});

it('says that a worker takes from no queue in which tasks of its handlers are', async () => {
  const database = await withDatabase('errands');
  onTestFinished(() => database.drop());
  const shop = join(install(), 'shop');
  const env = { OUTLAST_DATABASE_URL: database.url };
  await new CliProcess(['migrate'], shop, env).ended;
  const worker = new CliProcess(['worker', '--queues', 'default'], shop, env);
  await worker.says('no handler here has its tasks in a queue that this worker takes from');
  expect(worker.stderr).toContain('takesFrom=["default"] tasksAreIn=["errands"]');
  expect((await worker.stop()).code).toBe(0);
});
