import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.ts';

/** What talks to a driver, a server or another process. */
const ADAPTERS = 'src/adapters/**/*.test.ts';
const ELSEWHERE = ['**/node_modules/**', '**/dist/**', '**/.build/**'];

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
        test: {
          name: 'system',
          include: [ADAPTERS, 'test/**/*.test.ts'],
          exclude: ELSEWHERE,
        },
      },
    ],
  },
});
