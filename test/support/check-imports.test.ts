import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { checkImports } from '../../scripts/check-imports.mjs';

function setup(files: Readonly<Record<string, string>>): string[] {
  const root = mkdtempSync(join(tmpdir(), 'outlast-imports-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const manifest = { dependencies: { hono: '4' }, peerDependencies: { pg: '8' } };
  writeFileSync(join(root, 'package.json'), JSON.stringify(manifest));
  for (const [file, text] of Object.entries(files)) {
    const path = join(root, 'src', file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return checkImports(root).map(({ file, line, rule }) => `${file}:${line} ${rule}`);
}

it('reports an import against the allowed direction at its line, including types', () => {
  const violations = setup({
    'errors/error.ts': '',
    'task/envelope.ts': `import { E } from '../errors/error.ts';`,
    'outbox/outbox-store.ts': `import type { Envelope } from '../task/envelope.ts';`,
    'relay/relay.ts': [
      `import { OutboxStore } from '../outbox/outbox-store.ts';`,
      `// import { x } from '../app/a.ts'; in a comment is no import`,
      `import type {`,
      `  Store,`,
      `} from '../adapters/postgres/store.ts';`,
      `import type { Pool } from 'pg';`,
      `export { it } from 'vitest';`,
    ].join('\n'),
    'adapters/postgres/store.ts': `import type { Pool } from 'pg';`,
    'adapters/redis/store.ts': `export * from '../postgres/store.ts';`,
    'adapters/pglite/store.ts': `export * from '../postgres/store.ts';`,
    'cli/main.ts': `await import('../adapters/pglite/store.ts');`,
    'relay/relay.test.ts': `import '../adapters/redis/store.ts';`,
  });
  expect(violations).toEqual([
    'adapters/redis/store.ts:1 direction',
    'cli/main.ts:1 direction',
    'relay/relay.ts:5 direction',
    'relay/relay.ts:6 driver',
    'relay/relay.ts:7 package',
  ]);
});

it('reports an import from the test folder or of a test file, except in tests', () => {
  const violations = setup({
    'relay/relay.ts': [
      `import { MemoryLedger } from '../../test/memory/memory-ledger.ts';`,
      `import { setup } from './relay.test.ts';`,
    ].join('\n'),
    'relay/relay.test.ts': `import { MemoryLedger } from '../../test/memory/memory-ledger.ts';`,
  });
  expect(violations).toEqual(['relay/relay.ts:1 outside', 'relay/relay.ts:2 outside']);
});

it('reports a cycle once, even one of types only', () => {
  const violations = setup({
    'relay/claim.ts': `import type { B } from './publish.ts';`,
    'relay/publish.ts': `import type { C } from './settle.ts';`,
    'relay/settle.ts': `import type { A } from './claim.ts';`,
    'relay/relay.ts': `import './claim.ts';`,
  });
  expect(violations).toEqual(['relay/settle.ts:1 cycle']);
});

it('keeps Node APIs out of modules that contracts import, and the system clock out of the core', () => {
  const violations = setup({
    'task/index.ts': `export { id } from './names.ts';`,
    'task/names.ts': `import { randomUUID } from 'node:crypto';`,
    'task/not-reached.ts': `import 'node:fs';`,
    'ledger/ledger.ts': `const a = new Date(5);\nconst b = 'new Date()';\nconst c = new Date();`,
    'runtime/clock.ts': `export const now = () => new Date();`,
  });
  expect(violations).toEqual(['task/names.ts:1 pure-task', 'ledger/ledger.ts:3 clock']);
});
