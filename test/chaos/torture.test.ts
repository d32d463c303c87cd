import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { withDatabase } from '../support/servers.ts';
import { Torture } from '../torture/torture.ts';

/** A short form of `npm run torture`, so that every test run has seen real processes die at random. */
it('loses nothing and has no effect twice while relays, workers and resurrectors are killed at random', async () => {
  const database = await withDatabase('torture');
  onTestFinished(() => database.drop());
  const repo = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');
  const said: string[] = [];
  const plan = {
    tasks: 600,
    kills: 8,
    rate: 60,
    seed: 7,
    healMs: 60_000,
    repo,
    say: (line: string) => void said.push(line),
  };
  const report = await new Torture(plan, database.url).run();
  expect(said).toEqual([]);
  expect(report.violations).toEqual([]);
  expect(report.verdict).toMatchObject({ committed: 600, done: 600, lost: 0 });
  expect(report.rolledBack).toBeGreaterThan(0);
}, 180_000);
