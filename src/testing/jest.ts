import type { Task } from '../task/define-task.ts';
import type { TestKit } from './create-test-kit.ts';
import { matchSent, type Match, type SentExpectation } from './match-sent.ts';

interface OutlastMatchers {
  toHaveSentTask(kit: TestKit, task: Task, expected?: SentExpectation): Match;
}

/**
 * For `expect.extend`; a runner with a global `expect` has them by the import alone.
 *
 * @example
 * expect.extend(outlastMatchers);
 */
export const outlastMatchers: OutlastMatchers = { toHaveSentTask: matchSent };

const { expect } = globalThis as {
  readonly expect?: { extend(matchers: OutlastMatchers): void };
};
expect?.extend(outlastMatchers);
