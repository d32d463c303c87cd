import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { migratedDatabase } from '../support/database.ts';
import { ROOT } from '../support/dev-process.ts';

const EXAMPLES = join(ROOT, 'examples');
const GUIDE = readFileSync(join(ROOT, 'docs/guides/frameworks.md'), 'utf8');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');

/** The example as `npm install` would make it, without the registry: its dependencies and nothing else. */
function install(example: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-example-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(join(EXAMPLES, example), folder, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly dependencies: object;
    readonly devDependencies?: object;
  };
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })) {
    const place = join(folder, 'node_modules', name);
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(name === 'outlast' ? ROOT : join(ROOT, 'node_modules', name), place);
  }
  return folder;
}

/** A program of an example; what it prints is collected. */
class Program {
  stdout = '';
  stderr = '';
  readonly ended: Promise<number | null>;
  readonly #child;
  readonly #waiting = new Set<() => void>();

  constructor(folder: string, args: readonly string[], env: Readonly<Record<string, string>>) {
    const options = { cwd: folder, env: { ...process.env, ...env }, stdio: 'pipe' as const };
    this.#child = spawn(process.execPath, args, options);
    this.#child.stdout.on('data', (part: Buffer) => {
      this.stdout += part.toString();
      this.#look();
    });
    this.#child.stderr.on('data', (part: Buffer) => (this.stderr += part.toString()));
    this.ended = new Promise(resolve => this.#child.once('close', resolve));
    void this.ended.then(() => this.#look());
    onTestFinished(() => void this.#child.kill('SIGKILL'));
  }

  #look(): void {
    for (const look of this.#waiting) look();
  }

  /** What the pattern finds in what it prints; an error if it ends before. */
  find(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = pattern.exec(this.stdout);
        if (found !== null) resolve(found[1] ?? found[0]);
        else if (this.#child.exitCode !== null) reject(new Error(`it has ended: ${this.stderr}`));
      };
      this.#waiting.add(look);
      look();
    });
  }

  stop(): Promise<number | null> {
    this.#child.kill('SIGTERM');
    return this.ended;
  }
}

const post = (url: string, order: object): Promise<Response> =>
  fetch(`${url}/orders`, {
    method: 'POST',
    body: JSON.stringify(order),
    headers: { 'content-type': 'application/json', 'x-request-id': 'r-17' },
  });

/** The blocks of the guide whose first line is the path of a file, and what the guide says of what is printed. */
const blocks = Array.from(
  GUIDE.matchAll(/^```(?:js|typescript)\n(\/\/ ([\w./-]+\.(?:mjs|js|ts))[^]*?)^```$/gm),
  ([, text = '', path = '']) => [path, text] as const,
);
const printed = /^```text\n([^]*?)^```$/m.exec(GUIDE)?.[1] ?? '';

describe.each([
  ['04-express', ['server.mjs']],
  ['05-fastify', ['server.mjs']],
  ['06-hono', ['server.mjs']],
  ['07-nestjs', ['dist/main.js']],
])('the example %s', (example, args) => {
  it('is shown in the guide', () => {
    const files = readdirSync(join(EXAMPLES, example), { recursive: true, encoding: 'utf8' });
    const shown = files.filter(file => blocks.some(([path]) => path === `${example}/${file}`));
    expect(shown.length).toBeGreaterThan(0);
    for (const file of shown) {
      const [, text = ''] = blocks.find(([path]) => path === `${example}/${file}`) ?? [];
      const source = readFileSync(join(EXAMPLES, example, file), 'utf8');
      expect(text.slice(text.indexOf('\n') + 1)).toBe(source.slice(source.indexOf('\n') + 1));
    }
  });

  it('takes an order, refuses others with problem+json, runs the task, and drains at SIGTERM', async () => {
    const database = await migratedDatabase('example');
    onTestFinished(() => database.dispose());
    const folder = install(example);
    const env = { OUTLAST_DATABASE_URL: database.url, PORT: '0' };
    if (existsSync(join(folder, 'tsconfig.json')))
      expect(await new Program(folder, [TSC, '-p', '.'], env).ended).toBe(0);
    const program = new Program(folder, args, env);
    const url = await program.find(/listening on (\S+)\n/);
    const invalid = await post(url, { orderId: 17 });
    expect([invalid.status, await invalid.json()]).toMatchObject([
      400,
      { code: 'ERR_INPUT_INVALID', issues: [{ path: 'orderId' }] },
    ]);
    expect((await post(url, { orderId: '17' })).status).toBe(202);
    const rejected = await post(url, { orderId: '18' });
    expect(rejected.status).toBe(429);
    expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0);
    await program.find(/receipt for order .*\n/);
    // Nest ends by the signal itself, when its hooks have run.
    expect(await program.stop()).toBe(example === '07-nestjs' ? null : 0);
    expect(program.stdout).toBe(printed.replace('http://127.0.0.1:3000', url));
    expect(program.stderr).toBe('');
  });
});
