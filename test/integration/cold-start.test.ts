import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const DIST = pathToFileURL(join(ROOT, 'dist/')).href;
const HOOK = `
  import { writeSync } from 'node:fs';
  export const load = (url, context, next) => { writeSync(2, 'loads ' + url + '\\n'); return next(url, context); };`;
const dataUrl = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`;
const REGISTER = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(HOOK))});`;

/** The files of Outlast that Node loads. */
function loadedBy(...args: readonly string[]): readonly string[] {
  const flags = ['--import', dataUrl(REGISTER), ...args];
  const { stderr, status } = spawnSync(process.execPath, flags, { encoding: 'utf8' });
  expect(status).toBe(0);
  const urls = [...stderr.matchAll(/^loads (.+)$/gm)].map(([, url = '']) => url);
  return urls.filter(url => url.startsWith(DIST)).map(url => url.slice(DIST.length));
}

it('an application that sends loads nothing of what runs tasks', () => {
  const files = loadedBy('-e', `import('${DIST}index.js')`);
  expect(files).toContain('outbox/producer.js');
  const running =
    /^(relay|recovery|fleet|metrics|cli|dev|init|process\/(heartbeat|health)|worker\/(run|flow|intake|lease)|adapters\/(postgres|mysql|pglite|rabbitmq))\//;
  expect(files.filter(file => running.test(file))).toEqual([]);
});

it('a command loads its own verb only, and outlast --version none', () => {
  const program = join(ROOT, 'bin/outlast.js');
  const verbs = (...args: readonly string[]): readonly string[] =>
    loadedBy(program, ...args).filter(file => file.startsWith('cli/commands/'));
  expect(verbs('--version')).toEqual([]);
  expect(verbs('stats', '--help')).toEqual(['cli/commands/stats.js']);
});
