import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DevProcess, ROOT, type Ended } from '../support/dev-process.ts';
import { withDatabase } from '../support/servers.ts';

const EXAMPLE = join(ROOT, 'examples', '01-first-task');
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** The code blocks of the README that are files: their first line is a comment with the path. */
function blocksOfReadme(): Record<string, string> {
  const blocks = README.matchAll(/^```js\n(\/\/ (\S+\.mjs): [^]*?)^```$/gm);
  return Object.fromEntries([...blocks].map(([, text = '', path = '']) => [path, text]));
}

function sourcesOfExample(): Record<string, string> {
  const names = readdirSync(EXAMPLE, { recursive: true, encoding: 'utf8' });
  const sources = names.filter(name => name.endsWith('.mjs') && !name.startsWith('node_modules'));
  return Object.fromEntries(sources.map(name => [name, readFileSync(join(EXAMPLE, name), 'utf8')]));
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

/** The example as `npm install` would make it, without the registry: its dependencies and nothing else. */
function installExample(): string {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-example-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(EXAMPLE, folder, {
    recursive: true,
    filter: source => source !== join(EXAMPLE, 'node_modules'),
  });
  mkdirSync(join(folder, 'node_modules'));
  const text = readFileSync(join(folder, 'package.json'), 'utf8');
  for (const name of Object.keys((JSON.parse(text) as Manifest).dependencies)) {
    const target = name === 'outlast' ? ROOT : join(ROOT, 'node_modules', name);
    symlinkSync(target, join(folder, 'node_modules', name));
  }
  return folder;
}

function placeOrder(folder: string, url: string): Promise<Ended> {
  const options = { cwd: folder, env: { ...process.env, OUTLAST_DATABASE_URL: url } };
  return new Promise(resolve => {
    const args = ['src/place-order.mjs'];
    const child = execFile(process.execPath, args, options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

async function countTasks(url: string): Promise<number> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ n: number }>(
      'select ((select count(*) from outlast_task) + (select count(*) from outlast_outbox))::int as n',
    );
    return rows[0]?.n ?? -1;
  } finally {
    await client.end();
  }
}

describe('the first example', () => {
  it('is shown in the README file by file, unchanged', () => {
    expect(blocksOfReadme()).toEqual(sourcesOfExample());
  });

  it('prints what the README shows, and sends one mail', async () => {
    const database = await withDatabase('example');
    onTestFinished(() => database.drop());
    const folder = installExample();
    const dev = await DevProcess.start(folder, { env: { OUTLAST_DATABASE_URL: database.url } });
    onTestFinished(() => dev.stop());

    const first = await placeOrder(folder, database.url);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(README).toContain(`\`\`\`text\n${first.stdout}\`\`\`\n`);

    // The order exists already, so the second transaction is rolled back and sends nothing.
    const second = await placeOrder(folder, database.url);
    expect(second.code).toBe(1);
    expect(second.stderr).toContain('duplicate key');
    expect(await countTasks(database.url)).toBe(1);
    expect(dev.stdout.match(/^mail for order 17, key \S+$/gm)).toHaveLength(1);
  });
});
