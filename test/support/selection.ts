import { beforeEach, type TestContext } from 'vitest';

/** `npm run test:all` sets it: every store is asked everything. */
const isAll = process.env['OUTLAST_TEST_ALL'] !== undefined;

/** Set by hand or by `npm run test:all`: also what takes minutes, or shows the same by another way. */
export const isLong: boolean = process.env['OUTLAST_TEST_LONG'] !== undefined;

type Test = TestContext['task'];

/**
 * For a file whose store shares its statements or scripts with another store, which is asked everything: here the first test of
 * each `describe` shows that they arrive, and the file's own tests show what differs. `whole` names suites of which all tests
 * run, because there the stores do differ.
 */
export function onlyFirstOfEach({ whole = [] }: { readonly whole?: readonly string[] } = {}): void {
  if (isAll) return;
  beforeEach(({ task, skip }) => {
    const isWhole = suiteNames(task).some(name => whole.some(start => name.startsWith(start)));
    skip(!isWhole && !isFirst(task), 'the same as on another store: npm run test:all');
  });
}

function isFirst(task: Test): boolean {
  return task.suite === undefined || task.suite.tasks.find(({ type }) => type === 'test') === task;
}

function suiteNames(task: Test): readonly string[] {
  const names: string[] = [];
  for (let suite = task.suite; suite !== undefined; suite = suite.suite) names.push(suite.name);
  return names;
}
