import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const GUIDES = join(ROOT, 'docs/guides');
/** What every reader of a guide has by then; a block that imports or declares one of these has its own. */
const GLOBALS = `
import type { PoolClient } from 'pg';
import type * as root from 'outlast';
import type * as zod from 'zod';
declare global {
  const outlast: root.Outlast<PoolClient>;
  const client: PoolClient;
  const task: typeof root.task;
  const defineConfig: typeof root.defineConfig;
  const createOutlast: typeof root.createOutlast;
  const z: typeof zod.z;
}
`;
/** Packages that a guide shows and that are not installed here. */
const FOREIGN = `declare module '@opentelemetry/sdk-node' {
  export class NodeSDK {
    constructor(options: { readonly serviceName: string });
    start(): void;
  }
}`;
const run = promisify(execFile);

/** Names that a guide uses and does not show: `<!-- check: … -->`. */
const PREAMBLE = /<!-- check:\n([^]*?)-->/;
const IMPORT = /^import [^]*?;\n/gm;
/** Both belong to the top of a module. */
const MODULE = /^declare module [^]*?^}\n/gm;

interface Block {
  readonly name: string;
  readonly text: string;
}

const guides = readdirSync(GUIDES).filter(name => name.endsWith('.md'));

function blocksOf(guide: string, language: string): readonly Block[] {
  const text = readFileSync(join(GUIDES, guide), 'utf8');
  const found = text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'));
  return Array.from(found, ([, block = ''], at) => ({ name: `${guide}-${at + 1}`, text: block }));
}

/** A module: what the guide has in its comment, then the block in a function of its own, because blocks declare names again. */
function moduleOf(guide: string, block: string): string {
  const preamble = PREAMBLE.exec(readFileSync(join(GUIDES, guide), 'utf8'))?.[1] ?? '';
  const imports = [...preamble.matchAll(IMPORT), ...block.matchAll(IMPORT)].map(([line]) => line);
  const modules = Array.from(block.matchAll(MODULE), ([text]) => text);
  const body = block
    .replaceAll(IMPORT, '')
    .replaceAll(MODULE, '')
    .replaceAll(/^export default /gm, 'const exported = ')
    .replaceAll(/^export /gm, '');
  const before = preamble.replaceAll(IMPORT, '');
  return `${imports.join('')}${before}${modules.join('')}\nexport async function block() {\n${body}}\n`;
}

/** A project beside the sources, so that `outlast` is this package. */
function folder(): string {
  mkdirSync(join(ROOT, 'node_modules/.cache'), { recursive: true });
  const made = mkdtempSync(join(ROOT, 'node_modules/.cache/guides-'));
  onTestFinished(() => rmSync(made, { recursive: true }));
  mkdirSync(join(made, 'node_modules'));
  symlinkSync(ROOT, join(made, 'node_modules/outlast'));
  return made;
}

it('every block of a guide in TypeScript is checked by the compiler', async () => {
  const made = folder();
  for (const guide of guides)
    for (const { name, text } of blocksOf(guide, 'ts'))
      writeFileSync(join(made, `${name}.ts`), moduleOf(guide, text));
  writeFileSync(join(made, 'globals.ts'), GLOBALS);
  writeFileSync(join(made, 'foreign.d.ts'), FOREIGN);
  const options = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    target: 'es2023',
    module: 'nodenext',
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  writeFileSync(join(made, 'package.json'), '{ "type": "module" }');
  writeFileSync(
    join(made, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, include: ['*.ts'] }),
  );
  const told = await run(process.execPath, [
    join(ROOT, 'node_modules/typescript/bin/tsc'),
    '-p',
    made,
  ]).catch((error: { readonly stdout: string }) => error);
  expect(told.stdout).toBe('');
});

it('every block of a guide in JavaScript is a module that can be parsed', async () => {
  const made = folder();
  const blocks = guides.flatMap(guide => blocksOf(guide, 'js'));
  for (const { name, text } of blocks) writeFileSync(join(made, `${name}.mjs`), text);
  expect(blocks.length).toBeGreaterThan(0);
  for (const { name } of blocks)
    await run(process.execPath, ['--check', join(made, `${name}.mjs`)]);
});
