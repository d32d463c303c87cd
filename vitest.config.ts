import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.ts';

/** What talks to a driver, a server or another process. */
const ADAPTERS = 'src/adapters/**/*.test.ts';
const ELSEWHERE = ['**/node_modules/**', '**/dist/**', '**/.build/**'];

const SRC = fileURLToPath(new URL('src/', import.meta.url));
const DIST = fileURLToPath(new URL('dist/', import.meta.url));

/**
 * What is built is loaded by Node itself, in a fifth of the time, and is then the same code in a test and in the processes that
 * it starts. `npm test` asks for it, because it has just built; tests that are run by hand see `src` as it is now.
 */
const loadBuilt: Plugin = {
  name: 'load-built',
  enforce: 'pre',
  async resolveId(source, importer, options) {
    if (importer === undefined || !source.endsWith('.ts')) return null;
    const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
    if (resolved === null || !resolved.id.startsWith(SRC)) return null;
    const built = `${DIST}${resolved.id.slice(SRC.length, -3)}.js`;
    return existsSync(built) ? { id: built, external: true } : null;
  },
};

export default defineConfig({
  test: {
    // Tests kill and drain processes; in a thread a signal handler would be shared with the runner.
    pool: 'forks',
    // The machines that run this have two cores, but most files wait for leases, servers and other
    // processes most of the time: two at once leave a third of the machine idle.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    // They end what hangs, and say nothing of how long anything takes: beside other work it takes ten times as long.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    globals: false,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          exclude: [...ELSEWHERE, ADAPTERS],
          // They keep nothing in a module or in the process: one process for many of them spares
          // half a second of loading each.
          isolate: false,
        },
      },
      {
        extends: true,
        plugins: process.env['OUTLAST_TEST_BUILT'] === undefined ? [] : [loadBuilt],
        test: {
          name: 'system',
          server: { deps: { external: [/\/dist\/.*\.js$/] } },
          include: [ADAPTERS, 'test/**/*.test.ts'],
          exclude: ELSEWHERE,
        },
      },
    ],
  },
});
