import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**', '**/.build/**'],
    // Tests kill and drain processes; in a thread a signal handler would be shared with the runner.
    pool: 'forks',
    // The machines that run this have two cores, and one test often drives several processes.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globals: false,
  },
});
